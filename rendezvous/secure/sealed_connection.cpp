#include "rendezvous/secure/sealed_connection.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <variant>

#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::string_view kNoKey = "nk";
constexpr std::string_view kOtherKey = "wk";
static_assert(kNoKey.size() == kSealedRefusalBytes && kOtherKey.size() == kSealedRefusalBytes);

std::string prologue_of(SealedPurpose purpose) {
    return std::string(kSealedMagic) + static_cast<char>(purpose);
}

std::optional<SealedPurpose> purpose_of(std::string_view call) {
    for (const SealedPurpose purpose : {SealedPurpose::agent, SealedPurpose::store})
        if (call.starts_with(prologue_of(purpose))) return purpose;
    return std::nullopt;
}

// Appends what comes until there are `size` bytes, the other side ends the connection, it breaks, or the time
// is over.
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

SealedCall::SealedCall(SealedPurpose purpose, const SecretKey& key, const SecretKey& ephemeral)
    : prologue_(prologue_of(purpose)),
      noise_(key, prologue_, ephemeral),
      bytes_(prologue_ + noise_.first()) {}

SealedCall::Result SealedCall::learn(std::string_view answer) {
    if (answer == kNoKey) return {Proof::no_key, std::nullopt};
    if (answer == kOtherKey) return {Proof::other_key, std::nullopt};
    if (answer.size() != kNoiseHandshakeBytes) return {};
    auto keys = noise_.finish(answer);
    if (!keys) return {};
    return {Proof::given, std::move(keys)};
}

SealedAnswer answer_sealed_call(std::string_view call, const std::optional<SecretKey>& key,
                                const std::function<SecretKey()>& fresh) {
    check(call.size() == kSealedCallBytes, "a sealed call is answered before it is whole");
    const auto purpose = purpose_of(call);
    if (!purpose) return {};
    if (!key) return {Proof::no_key, std::string(kNoKey), std::nullopt, *purpose};
    const std::string prologue = prologue_of(*purpose);
    NoiseResponder responder(*key, prologue);
    if (!responder.take(call.substr(prologue.size())))
        return {Proof::other_key, std::string(kOtherKey), std::nullopt, *purpose};
    auto answer = responder.answer(fresh());
    if (!answer) return {};
    return {Proof::given, std::move(answer->message), std::move(answer->keys), *purpose};
}

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

}  // namespace job
}  // namespace ddprun
