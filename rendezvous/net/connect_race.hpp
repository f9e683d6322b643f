// Connecting to a host with several addresses: one of them may lead nowhere, and nobody waits for that. Each next address
// is tried a moment after the one before it (RFC 8305), or at once when that has failed; the first that answers wins.
// For socket.cpp. On the thread of the coroutine's executor.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <optional>
#include <vector>

namespace ddprun::inline base {

// What an address gets before the next one is tried beside it.
inline constexpr std::chrono::milliseconds kHeadStart{250};

struct RaceResult {
    std::optional<boost::asio::ip::tcp::socket> socket;  // connected
    boost::system::error_code error;                     // otherwise: how the last one failed
};

// Never throws for a failed connection; ends what it has begun when it is cancelled. At least one address.
boost::asio::awaitable<RaceResult> race_to_connect(std::vector<boost::asio::ip::tcp::endpoint> addresses);

}  // namespace ddprun::inline base
