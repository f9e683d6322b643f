#include "rendezvous/server/rendezvous_server.hpp"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <thread>
#include <utility>

#include "rendezvous/control/control_channel.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/server/coordinator_service.hpp"
#include "rendezvous/server/port_service.hpp"
#include "rendezvous/server/serving_thread.hpp"

namespace ddprun::inline job {

namespace asio = boost::asio;
using asio::ip::tcp;

class RendezvousServer::Impl {
  public:
    Impl(RendezvousServerOptions options, const RendezvousServerEvents& events)
        : port_(listeners(options), {options.key, options.spared_descriptors}, port_events(events)),
          coordinator_(control_context_, options.coordinator, coordinator_events(events)) {
        port_.start();
        port_thread_ = start_serving(port_context_, events.on_failed);
        try {
            control_thread_ = start_serving(control_context_, events.on_failed);
        } catch (...) {
            port_context_.stop();
            port_thread_.join();
            throw;
        }
    }

    ~Impl() {
        port_context_.stop();
        control_context_.stop();
        port_thread_.join();
        control_thread_.join();
    }

    const Endpoint& own_endpoint() const { return own_endpoint_; }
    bool is_over() const { return is_over_; }

    void learn(const RecordNews& news) {
        asio::post(control_context_, [this, news] { coordinator_.learn(news); });
    }

    std::shared_ptr<ControlChannel> call(const asio::any_io_executor& agent) {
        auto ends = make_local_channel(agent, control_context_.get_executor());
        asio::post(control_context_, [this, ours = std::move(ends.second)] { coordinator_.serve_own(ours); });
        return ends.first;
    }

  private:
    std::vector<tcp::acceptor> listeners(RendezvousServerOptions& options) {
        const auto executor = port_context_.get_executor();
        auto acceptors = options.sockets.empty()
                             ? listen_tcp(executor, options.listen, options.port, options.free_ports)
                             : adopt_listeners(executor, std::move(options.sockets));
        const tcp::endpoint bound = acceptors.front().local_endpoint();
        const bool any = bound.address().is_unspecified();
        own_endpoint_ = {any ? "127.0.0.1" : bound.address().to_string(), bound.port()};
        return acceptors;
    }

    PortServiceEvents port_events(const RendezvousServerEvents& events) {
        return {.on_agent =
                    [this](tcp::socket socket, AgentEntry entry, std::shared_ptr<PortCall> call) {
                        const auto protocol = socket.local_endpoint().protocol();
                        hand_over(protocol, OwnedDescriptor(socket.release()), std::move(entry),
                                  std::move(call));
                    },
                .on_remark = events.on_remark};
    }

    void hand_over(tcp protocol, OwnedDescriptor fd, AgentEntry entry, std::shared_ptr<PortCall> call) {
        // Asio wants to copy what it is given.
        asio::post(control_context_, [this, protocol, held = std::make_shared<OwnedDescriptor>(std::move(fd)),
                                      entry = std::move(entry), call = std::move(call)]() mutable {
            coordinator_.serve(tcp::socket(control_context_, protocol, held->release()), std::move(entry),
                               std::move(call));
        });
    }

    CoordinatorServiceEvents coordinator_events(const RendezvousServerEvents& events) {
        return {.on_over =
                    [this, told = events.on_over] {
                        is_over_ = true;
                        if (told) told();
                    },
                .on_elected = events.on_elected,
                .on_wish = events.on_wish,
                .on_lease = events.on_lease,
                .on_round =
                    [this](const RoundNews& news, std::function<void()> done) {
                        asio::post(port_context_, [this, news, done = std::move(done)] {
                            news.is_new ? port_.begin_round(news.machines, news.through_doors)
                                        : port_.admit(news.machines);
                            asio::post(control_context_, done);
                        });
                    }};
    }

    asio::io_context port_context_{1};
    asio::io_context control_context_{1};
    // An agent may come when nobody else is there, and nothing is awaited.
    asio::executor_work_guard<asio::io_context::executor_type> control_work_ =
        asio::make_work_guard(control_context_);
    Endpoint own_endpoint_;
    std::atomic<bool> is_over_ = false;
    PortService port_;
    CoordinatorService coordinator_;
    std::thread port_thread_;
    std::thread control_thread_;
};

RendezvousServer::RendezvousServer(RendezvousServerOptions options, const RendezvousServerEvents& events)
    : impl_(std::make_unique<Impl>(std::move(options), events)) {}

RendezvousServer::~RendezvousServer() = default;

std::uint16_t RendezvousServer::port() const { return impl_->own_endpoint().port; }

Endpoint RendezvousServer::own_endpoint() const { return impl_->own_endpoint(); }

bool RendezvousServer::is_over() const { return impl_->is_over(); }

void RendezvousServer::learn(const RecordNews& news) { impl_->learn(news); }

std::shared_ptr<ControlChannel> RendezvousServer::call(const asio::any_io_executor& agent) {
    return impl_->call(agent);
}

}  // namespace ddprun::inline job
