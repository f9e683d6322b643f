#include "rendezvous/store/store_host.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/packaged_task.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {

namespace asio = boost::asio;

class StoreHost::Impl {
  public:
    Impl(ListenScope scope, std::uint16_t port, const StoreLimits& limits)
        : service_(std::in_place, context_.get_executor(), limits),
          acceptor_(listen_tcp(context_.get_executor(), scope, port)),
          port_(acceptor_.local_endpoint().port()) {
        asio::co_spawn(context_, accept(), [](const std::exception_ptr& error) {
            if (error) std::rethrow_exception(error);
        });
        thread_ = start_without_signals([this] { context_.run(); });
    }

    ~Impl() {
        asio::post(context_, [this] {
            service_.reset();
            context_.stop();
        });
        thread_.join();
    }

    std::uint16_t port() const { return port_; }

    template <typename Function>
    auto ask(Function function) {
        return asio::dispatch(context_, std::packaged_task<decltype(function())()>(std::move(function)))
            .get();
    }

    StoreService& service() { return *service_; }

  private:
    asio::awaitable<void> accept() {
        for (;;) {
            asio::ip::tcp::socket socket = co_await accept_tcp(acceptor_);
            asio::co_spawn(context_, service_->serve(std::move(socket), {}), asio::detached);
        }
    }

    asio::io_context context_{1};
    std::optional<StoreService> service_;
    asio::ip::tcp::acceptor acceptor_;
    std::uint16_t port_;
    std::thread thread_;
};

StoreHost::StoreHost(ListenScope scope, std::uint16_t port, const StoreLimits& limits)
    : impl_(std::make_unique<Impl>(scope, port, limits)) {}

StoreHost::~StoreHost() = default;

std::uint16_t StoreHost::port() const { return impl_->port(); }

StoreService::Counters StoreHost::counters() const {
    return impl_->ask([impl = impl_.get()] { return impl->service().counters(); });
}

void StoreHost::clear() {
    impl_->ask([impl = impl_.get()] { impl->service().clear(); });
}

}  // namespace ddprun
