// set_no_delay(), keep_alive() and limit_silence(): how TCP connections behave. listen.hpp and connect.hpp
// make the sockets: close-on-exec from their creation, every wait bounded.
//
// Asio neither sets close-on-exec nor offers it at creation, and a worker forked in between would inherit the
// descriptor; therefore sockets are made there and then handed to Asio. Any thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <chrono>

namespace ddprun {
inline namespace base {

// Makes the kernel send at once what is written. Best effort.
void set_no_delay(int fd);

// Makes the kernel probe an idle connection, after `idle_s` seconds and then every `interval_s`; `probes`
// without an answer end it. Best effort.
void keep_alive(int fd, int idle_s, int interval_s, int probes);

// Ends a connection with a silent peer after `timeout`: cut off, frozen or gone, whether data is under way or
// the connection is idle. Best effort: options that the system does not know are left out.
void limit_silence(boost::asio::ip::tcp::socket& socket, std::chrono::milliseconds timeout);

}  // namespace base
}  // namespace ddprun
