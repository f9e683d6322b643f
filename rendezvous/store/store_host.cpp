#include "rendezvous/store/store_host.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/packaged_task.hpp>
#include <boost/asio/post.hpp>

#include <unistd.h>
#include <exception>
#include <future>

#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace base {

namespace asio = boost::asio;

StoreHost::StoreHost(ListenScope scope, std::uint16_t port, const StoreLimits& limits)
    : service_(StoreService::make(context_.get_executor(), limits)),
      acceptor_(listen_tcp(context_.get_executor(), scope, port)),
      port_(acceptor_.local_endpoint().port()) {
    asio::co_spawn(context_, accept(), [](const std::exception_ptr& error) {
        if (error) std::rethrow_exception(error);
    });
    thread_ = start_without_signals([this] { context_.run(); });
}

StoreHost::~StoreHost() {
    asio::post(context_, [this] {
        service_.reset();
        context_.stop();
    });
    thread_.join();
}

asio::awaitable<void> StoreHost::accept() {
    return accept_each(acceptor_, [this, own = ::geteuid()](asio::ip::tcp::socket socket) {
        if (owners_.of(socket).is_other_than(own)) return;  // The socket closes here.
        asio::co_spawn(context_, service_->serve(std::move(socket), {}), asio::detached);
    });
}

StoreService::Counters StoreHost::counters() const {
    return asio::dispatch(context_, std::packaged_task<StoreService::Counters()>(
                                        [this] { return service_->counters(); }))
        .get();
}

void StoreHost::clear() {
    asio::dispatch(context_, std::packaged_task<void()>([this] { service_->clear(); })).get();
}

}  // namespace base
}  // namespace ddprun
