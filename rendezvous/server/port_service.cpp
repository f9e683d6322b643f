#include "rendezvous/server/port_service.hpp"

#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <unordered_map>
#include <utility>

#include "rendezvous/net/socket.hpp"
#include "rendezvous/server/unproven_calls.hpp"

namespace ddprun {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

void rethrow_at_port(const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
}

}  // namespace

struct PortService::Unproven {
    UnprovenCalls calls;
    std::unordered_map<UnprovenCalls::Id, tcp::socket*> sockets;
    UnprovenCalls::Id last = 0;
};

PortService::PortService(std::vector<tcp::acceptor> acceptors, PortServiceOptions options,
                         PortServiceEvents events)
    : acceptors_(std::move(acceptors)),
      events_(std::move(events)),
      gate_(::geteuid()),
      limit_(options.spared_descriptors),
      store_(acceptors_.front().get_executor(), {},
             [this](const std::string& sentence) { remark(sentence); }),
      key_(std::move(options.key)),
      unproven_(std::make_shared<Unproven>()) {}

void PortService::start() {
    for (tcp::acceptor& acceptor : acceptors_) {
        asio::co_spawn(acceptor.get_executor(),
                       accept_each(acceptor, [this](tcp::socket socket) { take(std::move(socket)); }),
                       rethrow_at_port);
    }
}

void PortService::take(tcp::socket socket) {
    if (!limit_.has_room(connections_ + doors_.size()))
        return remark(limit_.tell_full());  // The socket closes here.
    ++connections_;
    const auto executor = socket.get_executor();
    asio::co_spawn(executor, identify(std::move(socket)), [this](const std::exception_ptr& error) {
        --connections_;
        rethrow_at_port(error);
    });
}

void PortService::remark(const std::optional<std::string>& sentence) const {
    if (sentence && events_.on_remark) events_.on_remark(*sentence);
}

void PortService::begin_round(const std::vector<asio::ip::address>& machines, bool through_doors) {
    doors_.clear();
    store_.clear();
    gate_.begin_round(machines, through_doors);
}

void PortService::open_door(tcp::socket socket, const NoiseKeys& keys) {
    const std::uint64_t number = ++last_door_;
    auto& door = doors_[number];
    door =
        std::make_unique<DoorHost>(std::move(socket), keys, store_, [this, number] { doors_.erase(number); });
}

// What a stranger's connection holds while it has not shown that it is of the job.
class PortService::UnprovenPlace {
  public:
    UnprovenPlace(std::shared_ptr<Unproven> unproven, tcp::socket& socket, const asio::ip::address& source)
        : unproven_(std::move(unproven)), id_(++unproven_->last) {
        const auto gone = unproven_->calls.add(id_, comparable(source));
        unproven_->sockets[id_] = &socket;
        if (!gone) return;
        boost::system::error_code ignored;  // It ends either way.
        unproven_->sockets.at(*gone)->close(ignored);
    }
    ~UnprovenPlace() {
        unproven_->calls.remove(id_);
        unproven_->sockets.erase(id_);
    }
    UnprovenPlace(const UnprovenPlace&) = delete;
    UnprovenPlace& operator=(const UnprovenPlace&) = delete;

    void speaks() { unproven_->calls.speaks(id_); }

  private:
    std::shared_ptr<Unproven> unproven_;
    UnprovenCalls::Id id_;
};

// Reads the first bytes of a connection and hands it to the service that they are meant for. One of the job's own may be
// silent as long as it likes: PyTorch's clients before 2.1 open one that never speaks.
asio::awaitable<void> PortService::identify(tcp::socket socket) {
    boost::system::error_code error;
    const CallerGate::Caller caller{owners_.of(socket), socket.remote_endpoint(error).address()};
    const CallerGate::Pass pass = gate_.judge(caller);
    remark(gate_.tell_untold(caller));
    if (pass == CallerGate::Pass::nothing) co_return remark(gate_.tell_turned_away(caller));
    std::optional<UnprovenPlace> place;
    if (pass == CallerGate::Pass::agents_only) place.emplace(unproven_, socket, caller.address);
    const std::optional<std::string> first = co_await first_words(socket, place ? &*place : nullptr);
    if (!first) co_return;
    if (is_agent(*first)) {
        AgentEntry entry = co_await enter(socket, *first, key_);
        place.reset();
        if (!entry.why.empty()) remark(gate_.tell_turned_away(caller, entry.why));
        if (!entry.is_open || !socket.is_open()) co_return;
        if (!entry.is_door)
            events_.on_agent(std::move(socket), std::move(entry));
        else if (gate_.lets_door_in(caller))
            open_door(std::move(socket), *entry.keys);
        co_return;
    }
    place.reset();
    // It may have been admitted meanwhile.
    if (gate_.judge(caller) == CallerGate::Pass::everything) {
        co_await store_.serve(std::move(socket), *first);
    } else {
        remark(gate_.tell_turned_away(caller));
    }
}

// Enough to tell who it is; nothing: it broke off, or took too long.
asio::awaitable<std::optional<std::string>> PortService::first_words(tcp::socket& socket,
                                                                     UnprovenPlace* place) {
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer deadline(socket.get_executor(), asio::steady_timer::time_point::max());
    if (place != nullptr) deadline.expires_after(kStrangersTimeout);
    std::string first;
    while (may_be_agent(first) && !is_agent(first)) {
        std::array<char, 1024> bytes{};
        boost::system::error_code error;
        auto read = co_await (
            socket.async_read_some(asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error)) ||
            deadline.async_wait(asio::use_awaitable));
        if (error || read.index() == 1) co_return std::nullopt;
        if (first.empty() && place == nullptr) deadline.expires_after(kIdentifyTimeout);
        if (place != nullptr) place->speaks();
        first.append(bytes.data(), std::get<0>(read));
    }
    co_return first;
}

}  // namespace ddprun
