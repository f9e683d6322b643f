#include "rendezvous/server/port_service.hpp"

#include <unistd.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <new>

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/net/listen.hpp"
#include "rendezvous/secure/sealed_connection.hpp"
#include "rendezvous/server/port_calls.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

void rethrow_at_port(const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
}

// A caller for whom there is none is gone by then.
void rethrow_but_for_memory(const std::exception_ptr& error) {
    try {
        rethrow_at_port(error);
    } catch (const std::bad_alloc&) {
    }
}

// --- the first words of an agent

// This is more than one Hello; a caller that says more is not waited for.
constexpr std::size_t kMostPassedOver = 2 * kMaxControlFrame;

// Sends the words, and reads what the agent has said until it hangs up: a connection that ends with unread
// bytes takes the words back.
asio::awaitable<void> ask_for_secret(tcp::socket& socket) {
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

// Tells whether it has said enough; nothing: it never will.
std::optional<bool> is_complete(const AgentEntry& entry) {
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

// Tells whether these may be the first bytes of an agent, and whether they are.
bool may_be_agent(std::string_view first) {
    return kControlMagic.starts_with(first) || kSealedMagic.starts_with(first);
}

bool is_agent(std::string_view first) {
    return first.starts_with(kControlMagic) || first.starts_with(kSealedMagic);
}

// Hears an agent's first words; one that is turned away has been told so. `first`: what it has said so far.
// It takes as long as the agent does: the caller closes the socket when that is too long. The first words of
// a sealed conversation may be another's, played again: only a record that opens shows that the other side
// has the key now.
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
        co_await ask_for_secret(socket);
        entry.why = "it has no secret, and this node has one";
        co_return entry;
    } else {
        entry.first_bytes = first.substr(kControlMagic.size());
    }
    co_await hear_first(socket, entry);
    co_return entry;
}

}  // namespace

PortService::PortService(std::vector<tcp::acceptor> acceptors, PortServiceOptions options,
                         PortServiceEvents events)
    : acceptors_(std::move(acceptors)),
      events_(std::move(events)),
      gate_(::geteuid()),
      calls_(std::make_shared<PortCalls>(acceptors_.front().get_executor(),
                                         ConnectionLimit(options.spared_descriptors))),
      store_(StoreService::make(acceptors_.front().get_executor(), {},
                                [this](const std::string& sentence) { remark(sentence); })),
      key_(std::move(options.key)) {}

void PortService::start() {
    for (tcp::acceptor& acceptor : acceptors_) {
        asio::co_spawn(acceptor.get_executor(),
                       accept_each(acceptor, [this](tcp::socket socket) { take(std::move(socket)); }),
                       rethrow_at_port);
    }
}

// A host that has no memory left for a caller does without that one.
void PortService::take(tcp::socket socket) {
    try {
        if (calls_->is_full()) remark(calls_->tell_full());
        auto call = calls_->take();
        if (!call) return;  // The socket closes here.
        const auto executor = socket.get_executor();
        asio::co_spawn(executor, identify(std::move(socket), std::move(call)), rethrow_but_for_memory);
    } catch (const std::bad_alloc&) {
    }
}

void PortService::remark(const std::optional<std::string>& sentence) const {
    if (sentence && events_.on_remark) events_.on_remark(*sentence);
}

void PortService::turn_away(const CallerGate::Caller& caller, const std::string& why) {
    const auto told = gate_.turn_away(caller, why, RefusedCallers::Clock::now());
    remark(told.sentence);
    if (told.event && events_.on_refused) events_.on_refused(*told.event);
}

void PortService::begin_round(const std::vector<asio::ip::address>& machines, bool through_doors) {
    doors_.clear();
    store_->clear();
    gate_.begin_round(machines, through_doors);
}

void PortService::open_door(tcp::socket socket, AgentEntry entry, const CallerGate::Caller& caller,
                            std::shared_ptr<PortCall> call) {
    const std::uint64_t number = ++last_door_;
    call->trust();
    auto host =
        std::make_unique<DoorHost>(std::move(socket), std::move(*entry.records), std::move(entry.first_bytes),
                                   *store_, [this, number, caller](std::string_view why) {
                                       if (!why.empty()) turn_away(caller, std::string(why));
                                       doors_.erase(number);
                                   });
    doors_.emplace(number, Door{std::move(call), std::move(host)});
}

// Reads the first bytes of a connection and hands it to the service that they are meant for. One of the job's
// own may be silent as long as there is room: PyTorch's clients before 2.1 open one that never speaks.
asio::awaitable<void> PortService::identify(tcp::socket socket, std::shared_ptr<PortCall> call) {
    boost::system::error_code error;
    const CallerGate::Caller caller{owners_.of(socket), socket.remote_endpoint(error).address()};
    const CallerGate::Pass pass = gate_.judge(caller);
    remark(gate_.tell_untold(caller));
    if (pass == CallerGate::Pass::nothing) co_return turn_away(caller);
    const auto close = [&socket] {
        boost::system::error_code ignored;  // It ends either way.
        socket.close(ignored);
    };
    const auto has_said = [&socket] {
        boost::system::error_code broken;
        return socket.available(broken) > 0;
    };
    const auto doubt = [&] {
        const bool is_own_user = caller.owner.kind == ConnectionOwner::Kind::user;
        call->doubt(is_own_user ? std::nullopt : std::optional(comparable(caller.address)), close, has_said);
    };
    if (pass == CallerGate::Pass::agents_only)
        doubt();
    else
        call->may_be_silent(close, has_said);
    std::string first;
    while (may_be_agent(first) && !is_agent(first)) {
        std::array<char, 1024> bytes{};
        const std::size_t count = co_await socket.async_read_some(
            asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return;
        first.append(bytes.data(), count);
        if (may_be_agent(first) || is_agent(first)) doubt();
        call->speaks();
    }
    if (is_agent(first)) co_return co_await let_agent_in(socket, std::move(first), caller, std::move(call));
    call->trust();
    // It may have been admitted meanwhile.
    if (gate_.judge(caller) == CallerGate::Pass::everything) {
        co_await store_->serve(std::move(socket), first);
    } else {
        turn_away(caller);
    }
}

asio::awaitable<void> PortService::let_agent_in(tcp::socket& socket, std::string first,
                                                const CallerGate::Caller& caller,
                                                std::shared_ptr<PortCall> call) {
    AgentEntry entry = co_await enter(socket, std::move(first), key_);
    if (!entry.why.empty()) turn_away(caller, entry.why);
    if (!entry.is_open || !socket.is_open()) co_return;
    if (entry.is_door) {
        if (gate_.lets_door_in(caller))
            open_door(std::move(socket), std::move(entry), caller, std::move(call));
    } else if (call->is_put_forward(entry.first_bytes.size())) {
        events_.on_agent(std::move(socket), std::move(entry), std::move(call));
    }
}

}  // namespace job
}  // namespace ddprun
