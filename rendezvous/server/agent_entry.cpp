#include "rendezvous/server/agent_entry.hpp"

#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/control/secret_words.hpp"
#include "rendezvous/secure/sealed_handshake.hpp"

namespace ddprun::inline job {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// More than one Hello; who says more is not waited for.
constexpr std::size_t kMostPassedOver = 2 * kMaxControlFrame;

// The words, and then what the agent has said until it hangs up: a connection that ends with unread bytes takes the words
// back.
asio::awaitable<void> turn_away(tcp::socket& socket) {
    using namespace asio::experimental::awaitable_operators;
    boost::system::error_code error;
    const std::string words = encode_control(secret_is_asked_for());
    co_await asio::async_write(socket, asio::buffer(words), asio::redirect_error(asio::use_awaitable, error));
    socket.shutdown(tcp::socket::shutdown_send, error);
    asio::steady_timer deadline(socket.get_executor(), kSealTimeout);
    for (std::size_t passed_over = 0; !error && passed_over < kMostPassedOver;) {
        std::array<char, 1024> bytes{};
        auto read = co_await (
            socket.async_read_some(asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error)) ||
            deadline.async_wait(asio::use_awaitable));
        if (read.index() == 1) break;
        passed_over += std::get<0>(read);
    }
}

// Whether it says enough; an error: it never will.
boost::system::result<bool> is_complete(const AgentEntry& entry) {
    if (entry.is_door) return !entry.first_bytes.empty();
    return has_first_message(entry.first_bytes);
}

asio::awaitable<void> hear_first(tcp::socket& socket, AgentEntry& entry) {
    for (;;) {
        const auto complete = is_complete(entry);
        entry.is_open = complete && *complete;
        if (!complete || entry.is_open) co_return;
        std::array<char, 1024> bytes{};
        boost::system::error_code error;
        const std::size_t count = co_await socket.async_read_some(
            asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return;
        const std::string_view said(bytes.data(), count);
        if (!entry.records) {
            entry.first_bytes += said;
            continue;
        }
        const auto plain = entry.records->open(said);
        if (!plain) co_return;
        entry.first_bytes += *plain;
    }
}

}  // namespace

bool may_be_agent(std::string_view first) {
    return kControlMagic.starts_with(first) || kSealedMagic.starts_with(first);
}

bool is_agent(std::string_view first) {
    return first.starts_with(kControlMagic) || first.starts_with(kSealedMagic);
}

asio::awaitable<AgentEntry> enter(tcp::socket& socket, std::string first,
                                  const std::optional<SecretKey>& key) {
    AgentEntry entry;
    if (first.starts_with(kSealedMagic)) {
        SealedAnswer answer = co_await answer_sealed(socket, std::move(first), key);
        entry.is_door = answer.purpose == SealedPurpose::store;
        if (answer.proof == Proof::no_key) entry.why = "it has a secret, and this node has none";
        if (answer.proof == Proof::other_key) entry.why = "it has another secret, or another --rdzv-id";
        if (!answer.keys) co_return entry;
        entry.records.emplace(*answer.keys);
    } else if (key) {
        co_await turn_away(socket);
        entry.why = "it has no secret, and this node has one";
        co_return entry;
    } else {
        entry.first_bytes = first.substr(kControlMagic.size());
    }
    co_await hear_first(socket, entry);
    co_return entry;
}

}  // namespace ddprun::inline job
