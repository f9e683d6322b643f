#include "rendezvous/server/port_service.hpp"

#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/net/socket.hpp"

namespace ddprun {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

void rethrow(const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
}

}  // namespace

PortService::PortService(std::vector<tcp::acceptor> acceptors, PortServiceEvents events)
    : acceptors_(std::move(acceptors)),
      events_(std::move(events)),
      gate_(::geteuid()),
      store_(acceptors_.front().get_executor()) {}

void PortService::start() {
    for (tcp::acceptor& acceptor : acceptors_) {
        const auto take = [this](tcp::socket socket) {
            if (connections_ >= kMaxConnections) return;  // The socket closes here.
            ++connections_;
            const auto executor = socket.get_executor();
            asio::co_spawn(executor, identify(std::move(socket)), [this](const std::exception_ptr& error) {
                --connections_;
                rethrow(error);
            });
        };
        asio::co_spawn(acceptor.get_executor(), accept_each(acceptor, take), rethrow);
    }
}

void PortService::begin_round(const std::vector<asio::ip::address>& machines) {
    store_.clear();
    gate_.begin_round(machines);
}

// Reads the first bytes of a connection and hands it to the service that they are meant for. One of the job's own may be
// silent as long as it likes: PyTorch's clients before 2.1 open one that never speaks.
asio::awaitable<void> PortService::identify(tcp::socket socket) {
    using namespace asio::experimental::awaitable_operators;
    boost::system::error_code error;
    const CallerGate::Caller caller{owners_.of(socket), socket.remote_endpoint(error).address()};
    const CallerGate::Pass pass = gate_.judge(caller);
    asio::steady_timer deadline(socket.get_executor(), asio::steady_timer::time_point::max());
    if (pass == CallerGate::Pass::agents_only) deadline.expires_after(kIdentifyTimeout);
    std::string first;
    while (pass != CallerGate::Pass::nothing && first.size() < kControlMagic.size() &&
           kControlMagic.starts_with(first)) {
        std::array<char, 1024> bytes{};
        auto read = co_await (
            socket.async_read_some(asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error)) ||
            deadline.async_wait(asio::use_awaitable));
        if (error || read.index() == 1) co_return;
        if (first.empty()) deadline.expires_after(kIdentifyTimeout);
        first.append(bytes.data(), std::get<0>(read));
    }
    if (pass != CallerGate::Pass::nothing && first.starts_with(kControlMagic)) {
        events_.on_agent(std::move(socket), first.substr(kControlMagic.size()));
        co_return;
    }
    // It may have been admitted meanwhile.
    if (gate_.judge(caller) == CallerGate::Pass::everything) {
        co_await store_.serve(std::move(socket), std::move(first));
    } else if (const auto sentence = gate_.tell_turned_away(caller); sentence && events_.on_remark) {
        events_.on_remark(*sentence);
    }
}

}  // namespace ddprun
