// connect_tcp() and async_connect_tcp() connect to a host that may have several addresses, within a bounded
// time: close-on-exec from the socket's creation, without delay. Any thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <optional>
#include <vector>

#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
inline namespace base {

// kHeadStart: how long an address is tried alone before the next one is tried beside it.
inline constexpr std::chrono::milliseconds kHeadStart{250};

struct RaceResult {
    std::optional<boost::asio::ip::tcp::socket> socket;  // connected
    boost::system::error_code error;                     // without a socket: how the last attempt failed
};

// Connects to a host with at least one address, of which some may lead nowhere. Each next address is tried
// kHeadStart after the one before (RFC 8305), or at once when that one has failed; the first connection wins.
// Never throws for a failed connection; closes all attempts when cancelled. On the thread of the coroutine's
// executor.
boost::asio::awaitable<RaceResult> race_to_connect(std::vector<boost::asio::ip::tcp::endpoint> addresses);

// Connects to the first address of `endpoint` that answers; blocking, for `timeout` in all. Returns a
// connected descriptor (close-on-exec, no delay, blocking). Throws Errc::timed_out, or Errc::unreachable with
// the cause in its message: name not resolved, refused, no route.
int connect_tcp(const Endpoint& endpoint, std::chrono::milliseconds timeout);

// Connects like connect_tcp() without blocking, for the agent, which must hear signals while it connects.
boost::asio::awaitable<boost::asio::ip::tcp::socket> async_connect_tcp(Endpoint endpoint,
                                                                       std::chrono::milliseconds timeout);

// Says whether a machine answers at the endpoint, and refuses the connection, now or within `timeout`.
boost::asio::awaitable<bool> is_refused(Endpoint endpoint, std::chrono::milliseconds timeout);

}  // namespace base
}  // namespace ddprun
