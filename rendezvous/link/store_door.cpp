#include "rendezvous/link/store_door.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <thread>

#include "rendezvous/link/door_service.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/server/serving_thread.hpp"

namespace ddprun::inline job {

namespace asio = boost::asio;
using asio::ip::tcp;

class StoreDoor::Impl {
  public:
    explicit Impl(StoreDoorOptions options) : service_(listeners(options.free_ports), std::move(options)) {}

    ~Impl() {
        context_.stop();
        if (thread_.joinable()) thread_.join();
    }

    const Endpoint& endpoint() const { return endpoint_; }

    void begin_round(const Endpoint& coordinator) {
        asio::post(context_, [this, coordinator] { service_.begin_round(coordinator); });
        if (thread_.joinable()) return;
        service_.start();
        thread_ = start_serving(context_, {});
    }

  private:
    // A number of its own, not that of the job's port: another agent on this machine may be about to listen there.
    std::vector<tcp::acceptor> listeners(const FreePorts& free_ports) {
        auto acceptors = listen_tcp(context_.get_executor(), ListenPlan{}, 0, free_ports);
        const tcp::endpoint bound = acceptors.front().local_endpoint();
        endpoint_ = {bound.address().to_string(), bound.port()};
        return acceptors;
    }

    asio::io_context context_{1};
    Endpoint endpoint_;
    DoorService service_;
    std::thread thread_;
};

StoreDoor::StoreDoor(StoreDoorOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

StoreDoor::~StoreDoor() = default;

Endpoint StoreDoor::endpoint() const { return impl_->endpoint(); }

void StoreDoor::begin_round(const Endpoint& coordinator) { impl_->begin_round(coordinator); }

}  // namespace ddprun::inline job
