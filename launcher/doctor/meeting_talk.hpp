// What two nodes of a `ddprun doctor` say to each other on a connection of their own, once each way:
//
//   caller    greeting          who it is, in which round, and the token of this run
//   callee    kWelcome          a stranger gets nothing, and is hung up on
//   caller    kPing             several times; the callee answers with its clock, eight bytes
//   caller    kBye              the end, or:
//   caller    kTransfer, data   for a while; the callee answers with the rate that has arrived, eight bytes,
//   callee    data              likewise
//
// Data are pieces of kPieceSize bytes, the first of which says whether another one follows; numbers have their lowest byte
// first. Coroutines on the caller's executor; none throws for a connection that fails, and each ends by its deadline.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "launcher/doctor/node_word.hpp"
#include "rendezvous/system/deadline.hpp"

namespace ddprun::inline launch {

inline constexpr char kWelcome = 'w';
inline constexpr char kPing = 'p';
inline constexpr char kBye = 'e';
inline constexpr char kTransfer = 't';

inline constexpr std::size_t kPieceSize = 256 * 1024;
// In one direction of one pair.
inline constexpr std::size_t kMaxTransfer = 256 * 1024 * 1024;

struct Greeting {
    std::string token;  // of kMeetingTokenSize
    int from = 0;
    int round = 0;

    bool operator==(const Greeting&) const = default;
};
inline constexpr std::string_view kGreetingMark = "ddprundr";
inline constexpr std::size_t kGreetingSize = kGreetingMark.size() + kMeetingTokenSize + 8;
// Pure, both.
std::string bytes_of(const Greeting& greeting);
std::optional<Greeting> parse_greeting(std::string_view bytes);

// False: it failed, or the deadline has passed; then the connection is of no more use in that direction.
boost::asio::awaitable<bool> send_all(boost::asio::ip::tcp::socket& socket, std::span<const char> bytes,
                                      Deadline deadline);
boost::asio::awaitable<bool> receive_all(boost::asio::ip::tcp::socket& socket, std::span<char> bytes,
                                         Deadline deadline);

boost::asio::awaitable<bool> send_number(boost::asio::ip::tcp::socket& socket, std::int64_t number,
                                         Deadline deadline);
boost::asio::awaitable<std::optional<std::int64_t>> receive_number(boost::asio::ip::tcp::socket& socket,
                                                                   Deadline deadline);

// Data for so long, or kMaxTransfer of them, and half as long again for what is under way then.
boost::asio::awaitable<void> send_data(boost::asio::ip::tcp::socket& socket, std::chrono::milliseconds time);
// What has arrived of them, in Mbit/s; 0 where nothing has.
boost::asio::awaitable<std::int64_t> receive_data(boost::asio::ip::tcp::socket& socket,
                                                  std::chrono::milliseconds time);

}  // namespace ddprun::inline launch
