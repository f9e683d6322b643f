// listen_tcp() makes listening sockets as ddprun needs them, and accept_each() takes their connections:
// close-on-exec from their creation, without delay, kept alive. Any thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstdint>
#include <functional>
#include <vector>

#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace base {

enum class ListenScope { loopback, any };

// Makes a listening TCP socket: close-on-exec, non-blocking, with the largest backlog that the kernel allows.
// `loopback` is 127.0.0.1; `any` is [::] for both families, or 0.0.0.0 where IPv6 is off. Port 0 takes a free
// one. Throws Errc::address_in_use (with the holder's pid and command where /proc shows them) or an errno.
boost::asio::ip::tcp::acceptor listen_tcp(const boost::asio::any_io_executor& executor, ListenScope scope,
                                          std::uint16_t port);

// Makes the listening sockets of the plan: one for each address, all with the same port, the one on loopback
// (if there is one) first. Port 0 takes one of `free_ports`; throws as take_port does where `free_ports` has
// a range.
std::vector<boost::asio::ip::tcp::acceptor> listen_tcp(const boost::asio::any_io_executor& executor,
                                                       const ListenPlan& plan, std::uint16_t port,
                                                       const FreePorts& free_ports = {});

// Takes over sockets that listen already; they are close-on-exec and non-blocking.
std::vector<boost::asio::ip::tcp::acceptor> adopt_listeners(const boost::asio::any_io_executor& executor,
                                                            std::vector<OwnedDescriptor> sockets);

// kAcceptsPerTurn: how many connections are taken in a row before the executor's other work has its turn.
inline constexpr int kAcceptsPerTurn = 64;

// Passes each new connection to `take`: close-on-exec, non-blocking, without delay, kept alive. Throws
// accept4's error when the listener itself is broken, and does not return otherwise. A peer that is gone
// already is passed over. When descriptors have run out, or on any unknown error, waits a moment and goes on.
boost::asio::awaitable<void> accept_each(boost::asio::ip::tcp::acceptor& acceptor,
                                         std::function<void(boost::asio::ip::tcp::socket)> take);

}  // namespace base
}  // namespace ddprun
