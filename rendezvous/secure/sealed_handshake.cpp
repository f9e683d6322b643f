#include "rendezvous/secure/sealed_handshake.hpp"

#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace ddprun::inline job {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// Appends what comes until there are `size` bytes, the other side ends the connection, it breaks, or the time is over.
asio::awaitable<void> read_up_to(tcp::socket& socket, std::string& bytes, std::size_t size) {
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer deadline(socket.get_executor(), kSealTimeout);
    while (bytes.size() < size) {
        std::array<char, 64> piece{};
        boost::system::error_code error;
        const auto room = asio::buffer(piece, std::min(piece.size(), size - bytes.size()));
        auto read =
            co_await (socket.async_read_some(room, asio::redirect_error(asio::use_awaitable, error)) ||
                      deadline.async_wait(asio::use_awaitable));
        if (read.index() == 1 || error) co_return;
        bytes.append(piece.data(), std::get<0>(read));
    }
}

// It is a few bytes, for which a new connection has room.
asio::awaitable<void> write_greeting(tcp::socket& socket, const std::string& bytes) {
    boost::system::error_code ignored;  // A broken connection shows itself at the next read.
    co_await asio::async_write(socket, asio::buffer(bytes),
                               asio::redirect_error(asio::use_awaitable, ignored));
}

}  // namespace

asio::awaitable<SealedCall::Result> call_sealed(tcp::socket& socket, SealedPurpose purpose,
                                                const SecretKey& key) {
    SealedCall call(purpose, key, SecretKey::fresh());
    co_await write_greeting(socket, call.bytes());
    std::string answer;
    co_await read_up_to(socket, answer, kNoiseHandshakeBytes);
    co_return call.learn(answer);
}

asio::awaitable<SealedAnswer> answer_sealed(tcp::socket& socket, std::string first,
                                            const std::optional<SecretKey>& key) {
    co_await read_up_to(socket, first, kSealedCallBytes);
    // Nobody has more to say before the answer.
    if (first.size() != kSealedCallBytes) co_return SealedAnswer{};
    SealedAnswer answer = answer_sealed_call(first, key, SecretKey::fresh);
    co_await write_greeting(socket, answer.bytes);
    co_return answer;
}

}  // namespace ddprun::inline job
