#include "rendezvous/server/rendezvous_server.hpp"

#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>
#include <unordered_map>

#include "rendezvous/control/control_session.hpp"
#include "rendezvous/store/store_service.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {

namespace asio = boost::asio;
using asio::ip::tcp;

class RendezvousServer::Impl {
  public:
    Impl(RendezvousServerOptions options, RendezvousServerEvents events)
        : acceptors_(options.sockets.empty()
                         ? listen_tcp(context_.get_executor(), options.listen, options.port)
                         : adopt_listeners(context_.get_executor(), std::move(options.sockets))),
          own_endpoint_(own_endpoint_of(acceptors_.front())),
          store_(context_.get_executor()),
          heartbeats_{options.coordinator.heartbeat},
          coordinator_(options.coordinator, Coordinator::TimePoint::clock::now()),
          deadline_(context_),
          events_(std::move(events)) {
        for (tcp::acceptor& acceptor : acceptors_) {
            asio::co_spawn(context_, accept_all(acceptor), [](const std::exception_ptr& error) {
                if (error)
                    std::rethrow_exception(error);  // The listener itself is broken: nothing can go on.
            });
        }
        arm_deadline();
        thread_ = start_without_signals([this] { context_.run(); });
    }

    ~Impl() {
        context_.stop();
        thread_.join();
    }

    const Endpoint& own_endpoint() const { return own_endpoint_; }
    bool is_over() const { return is_over_; }

    void learn(const RecordNews& news) {
        asio::post(context_,
                   [this, news] { deliver(coordinator_.learn(news, Coordinator::TimePoint::clock::now())); });
    }

  private:
    using ConnectionId = Coordinator::ConnectionId;

    static Endpoint own_endpoint_of(const tcp::acceptor& acceptor) {
        const auto bound = acceptor.local_endpoint();
        const bool any = bound.address().is_unspecified();
        return {any ? "127.0.0.1" : bound.address().to_string(), bound.port()};
    }

    asio::awaitable<void> accept_all(tcp::acceptor& acceptor) {
        return accept_each(acceptor, [this](tcp::socket socket) {
            if (connections_ >= kMaxConnections) return;  // The socket closes here.
            ++connections_;
            asio::co_spawn(context_, identify(std::move(socket)), [this](const std::exception_ptr& error) {
                --connections_;
                if (error) std::rethrow_exception(error);
            });
        });
    }

    // Reads the first bytes of a connection and hands it to the service that they are meant for. A silent connection may
    // stay: PyTorch's clients before 2.1 open one that never speaks.
    asio::awaitable<void> identify(tcp::socket socket) {
        using namespace asio::experimental::awaitable_operators;
        asio::steady_timer deadline(context_, asio::steady_timer::time_point::max());
        std::string first;
        while (first.size() < kControlMagic.size() && kControlMagic.starts_with(first)) {
            std::array<char, 1024> bytes{};
            boost::system::error_code error;
            auto read = co_await (socket.async_read_some(asio::buffer(bytes),
                                                         asio::redirect_error(asio::use_awaitable, error)) ||
                                  deadline.async_wait(asio::use_awaitable));
            if (error || read.index() == 1) co_return;
            if (first.empty()) deadline.expires_after(kIdentifyTimeout);
            first.append(bytes.data(), std::get<0>(read));
        }
        if (first.starts_with(kControlMagic)) {
            co_await serve_agent(std::move(socket), first.substr(kControlMagic.size()));
        } else {
            co_await store_.serve(std::move(socket), std::move(first));
        }
    }

    asio::awaitable<void> serve_agent(tcp::socket socket, std::string first_bytes) {
        const ConnectionId id = ++last_id_;
        limit_silence(socket, heartbeats_.connection_silence());
        auto session = std::make_shared<ControlSession>(std::move(socket), kMaxPendingBytes);
        sessions_[id] = session;
        asio::steady_timer deadline(context_, kIdentifyTimeout);
        deadline.async_wait([session](boost::system::error_code cancelled) {
            if (!cancelled) session->close();
        });
        const bool closed_there =
            co_await session->run(std::move(first_bytes), [&, id](const ControlMessage& message) {
                deadline.cancel();
                deliver(coordinator_.receive(id, message, Coordinator::TimePoint::clock::now()));
            });
        sessions_.erase(id);
        deliver(coordinator_.closed(id, Coordinator::TimePoint::clock::now(), closed_there));
    }

    void deliver(const Coordinator::Outbox& outbox) {
        // A round must never read what the one before it has left; its workers are gone and the next ones not
        // told yet.
        if (std::exchange(round_, coordinator_.round()) != coordinator_.round()) store_.clear();
        if (std::exchange(wish_, coordinator_.wish()) != coordinator_.wish() && events_.on_wish)
            events_.on_wish(wish_);
        const RoundLease lease{coordinator_.round(), coordinator_.lease_end()};
        if (std::exchange(lease_, lease) != lease && events_.on_lease) events_.on_lease(lease);
        SharedFrames ends;  // of an outbox that has any, they are the same for all
        for (const auto& outgoing : outbox) {
            auto session = sessions_.find(outgoing.to);
            if (session == sessions_.end()) continue;
            if (outgoing.ends && !ends) ends = encode_ends(*outgoing.ends);
            if (outgoing.ends) session->second->send_frames(ends);
            session->second->send(outgoing.message, outgoing.close_after);
        }
        arm_deadline();
        if (coordinator_.is_elected() && !std::exchange(is_elected_, true) && events_.on_elected)
            events_.on_elected();
        if (coordinator_.empty() && !is_over_.exchange(true) && events_.on_over) events_.on_over();
    }

    void arm_deadline() {
        const auto deadline = coordinator_.next_deadline();
        if (std::exchange(armed_for_, deadline) == deadline) return;
        deadline_.cancel();
        if (!deadline) return;
        deadline_.expires_at(*deadline);
        deadline_.async_wait([this](boost::system::error_code cancelled) {
            if (cancelled) return;
            armed_for_.reset();
            deliver(coordinator_.tick(Coordinator::TimePoint::clock::now()));
        });
    }

    asio::io_context context_{1};
    std::vector<tcp::acceptor> acceptors_;
    Endpoint own_endpoint_;
    StoreService store_;
    HeartbeatTerms heartbeats_;
    Coordinator coordinator_;
    asio::steady_timer deadline_;
    std::optional<Coordinator::TimePoint> armed_for_;
    RendezvousServerEvents events_;
    std::optional<RecordWish> wish_;
    bool is_elected_ = false;
    RoundLease lease_;
    std::atomic<bool> is_over_ = false;
    std::unordered_map<ConnectionId, std::shared_ptr<ControlSession>> sessions_;
    ConnectionId last_id_ = 0;
    int round_ = 0;
    std::size_t connections_ = 0;
    std::thread thread_;
};

RendezvousServer::RendezvousServer(RendezvousServerOptions options, RendezvousServerEvents events)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(events))) {}

RendezvousServer::~RendezvousServer() = default;

std::uint16_t RendezvousServer::port() const { return impl_->own_endpoint().port; }

bool RendezvousServer::is_over() const { return impl_->is_over(); }

void RendezvousServer::learn(const RecordNews& news) { impl_->learn(news); }

Endpoint RendezvousServer::own_endpoint() const { return impl_->own_endpoint(); }

}  // namespace ddprun
