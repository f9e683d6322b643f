#include "launcher/doctor/meeting_talk.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <vector>

namespace ddprun::inline launch {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace asio::experimental::awaitable_operators;

namespace {

constexpr std::size_t kNumberSize = 8;
constexpr std::size_t kGreetingNumberSize = 4;
constexpr char kMore = 1;
constexpr char kLast = 0;
// What waits to be sent does not hide how slow a link is.
constexpr int kMostUnsent = 256 * 1024;

void put_number(std::string& bytes, std::uint64_t number, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>((number >> (8 * i)) & 0xff);
}

std::uint64_t number_of(std::string_view bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return number;
}

// How many bytes; nothing at the deadline, or for an error.
template <class Operation>
asio::awaitable<std::optional<std::size_t>> by_deadline(Operation operation, Deadline deadline) {
    asio::steady_timer timer(co_await asio::this_coro::executor, deadline);
    boost::system::error_code error, ignored;
    const auto first = co_await (operation(asio::redirect_error(asio::use_awaitable, error)) ||
                                 timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored)));
    if (first.index() == 1 || error) co_return std::nullopt;
    co_return std::get<0>(first);
}

// Half as long again, for what is under way at the end.
Deadline last_moment(std::chrono::milliseconds time) {
    return std::chrono::steady_clock::now() + time + time / 2;
}

}  // namespace

std::string bytes_of(const Greeting& greeting) {
    std::string bytes(kGreetingMark);
    bytes += greeting.token;
    put_number(bytes, static_cast<std::uint32_t>(greeting.from), kGreetingNumberSize);
    put_number(bytes, static_cast<std::uint32_t>(greeting.round), kGreetingNumberSize);
    return bytes;
}

std::optional<Greeting> parse_greeting(std::string_view bytes) {
    if (bytes.size() != kGreetingSize || !bytes.starts_with(kGreetingMark)) return std::nullopt;
    bytes.remove_prefix(kGreetingMark.size());
    const std::string_view numbers = bytes.substr(kMeetingTokenSize);
    return Greeting{std::string(bytes.substr(0, kMeetingTokenSize)),
                    static_cast<int>(number_of(numbers.substr(0, kGreetingNumberSize))),
                    static_cast<int>(number_of(numbers.substr(kGreetingNumberSize)))};
}

asio::awaitable<bool> send_all(tcp::socket& socket, std::span<const char> bytes, Deadline deadline) {
    const auto sent = co_await by_deadline(
        [&socket, bytes](auto token) {
            return asio::async_write(socket, asio::buffer(bytes.data(), bytes.size()), token);
        },
        deadline);
    co_return sent.has_value();
}

asio::awaitable<bool> receive_all(tcp::socket& socket, std::span<char> bytes, Deadline deadline) {
    const auto received = co_await by_deadline(
        [&socket, bytes](auto token) {
            return asio::async_read(socket, asio::buffer(bytes.data(), bytes.size()), token);
        },
        deadline);
    co_return received.has_value();
}

asio::awaitable<bool> send_number(tcp::socket& socket, std::int64_t number, Deadline deadline) {
    std::string bytes;
    put_number(bytes, static_cast<std::uint64_t>(number), kNumberSize);
    co_return co_await send_all(socket, bytes, deadline);
}

asio::awaitable<std::optional<std::int64_t>> receive_number(tcp::socket& socket, Deadline deadline) {
    std::array<char, kNumberSize> bytes{};
    if (!co_await receive_all(socket, bytes, deadline)) co_return std::nullopt;
    co_return static_cast<std::int64_t>(number_of({bytes.data(), bytes.size()}));
}

asio::awaitable<void> send_data(tcp::socket& socket, std::chrono::milliseconds time) {
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMostUnsent, sizeof kMostUnsent);
    const Deadline end = std::chrono::steady_clock::now() + time;
    const Deadline last = last_moment(time);
    std::vector<char> piece(kPieceSize);
    for (std::size_t sent = 0;; sent += kPieceSize) {
        const bool is_last = has_passed(end) || sent + kPieceSize >= kMaxTransfer;
        piece.front() = is_last ? kLast : kMore;
        const bool is_sent = co_await send_all(socket, piece, last);
        if (is_last || !is_sent) co_return;
    }
}

asio::awaitable<std::int64_t> receive_data(tcp::socket& socket, std::chrono::milliseconds time) {
    const Deadline last = last_moment(time);
    std::vector<char> piece(kPieceSize);
    std::size_t filled = 0, counted = 0;
    std::optional<Deadline> first_at, last_at;
    for (;;) {
        const auto count = co_await by_deadline(
            [&](auto token) {
                return socket.async_read_some(asio::buffer(piece.data() + filled, kPieceSize - filled),
                                              token);
            },
            last);
        if (!count) break;
        last_at = std::chrono::steady_clock::now();
        // When the first bytes were sent nobody here knows.
        if (first_at) counted += *count;
        if (!first_at) first_at = last_at;
        filled += *count;
        if (filled < kPieceSize) continue;
        if (piece.front() == kLast) break;
        filled = 0;
    }
    if (counted == 0) co_return 0;
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(*last_at - *first_at);
    co_return static_cast<std::int64_t>(counted) * 8 / std::max<std::int64_t>(1, took.count());
}

}  // namespace ddprun::inline launch
