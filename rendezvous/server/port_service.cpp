#include "rendezvous/server/port_service.hpp"

#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <new>
#include <utility>

#include "rendezvous/net/socket.hpp"

namespace ddprun::inline job {

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

// Who has no memory left for a caller does without that one.
void PortService::take(tcp::socket socket) {
    try {
        auto call = calls_->take();
        if (!call) return remark(calls_->tell_full());  // The socket closes here.
        const auto executor = socket.get_executor();
        asio::co_spawn(executor, identify(std::move(socket), std::move(call)), rethrow_but_for_memory);
    } catch (const std::bad_alloc&) {
    }
}

void PortService::remark(const std::optional<std::string>& sentence) const {
    if (sentence && events_.on_remark) events_.on_remark(*sentence);
}

void PortService::begin_round(const std::vector<asio::ip::address>& machines, bool through_doors) {
    doors_.clear();
    store_->clear();
    gate_.begin_round(machines, through_doors);
}

void PortService::open_door(tcp::socket socket, AgentEntry entry, std::shared_ptr<PortCall> call) {
    const std::uint64_t number = ++last_door_;
    call->trust();
    auto host =
        std::make_unique<DoorHost>(std::move(socket), std::move(*entry.records), std::move(entry.first_bytes),
                                   *store_, [this, number] { doors_.erase(number); });
    doors_.emplace(number, Door{std::move(call), std::move(host)});
}

// Reads the first bytes of a connection and hands it to the service that they are meant for. One of the job's own may be
// silent as long as it likes: PyTorch's clients before 2.1 open one that never speaks.
asio::awaitable<void> PortService::identify(tcp::socket socket, std::shared_ptr<PortCall> call) {
    boost::system::error_code error;
    const CallerGate::Caller caller{owners_.of(socket), socket.remote_endpoint(error).address()};
    const CallerGate::Pass pass = gate_.judge(caller);
    remark(gate_.tell_untold(caller));
    if (pass == CallerGate::Pass::nothing) co_return remark(gate_.tell_turned_away(caller));
    const auto doubt = [&] {
        const bool is_own_user = caller.owner.kind == ConnectionOwner::Kind::user;
        call->doubt(is_own_user ? std::nullopt : std::optional(comparable(caller.address)), [&socket] {
            boost::system::error_code ignored;  // It ends either way.
            socket.close(ignored);
        });
    };
    if (pass == CallerGate::Pass::agents_only) doubt();
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
        remark(gate_.tell_turned_away(caller));
    }
}

asio::awaitable<void> PortService::let_agent_in(tcp::socket& socket, std::string first,
                                                const CallerGate::Caller& caller,
                                                std::shared_ptr<PortCall> call) {
    AgentEntry entry = co_await enter(socket, std::move(first), key_);
    if (!entry.why.empty()) remark(gate_.tell_turned_away(caller, entry.why));
    if (!entry.is_open || !socket.is_open()) co_return;
    if (entry.is_door) {
        if (gate_.lets_door_in(caller)) open_door(std::move(socket), std::move(entry), std::move(call));
    } else if (call->is_put_forward(entry.first_bytes.size())) {
        events_.on_agent(std::move(socket), std::move(entry), std::move(call));
    }
}

}  // namespace ddprun::inline job
