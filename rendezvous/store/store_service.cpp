#include "rendezvous/store/store_service.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "rendezvous/store/store_hub.hpp"

namespace ddprun::inline base {

namespace asio = boost::asio;

StoreService::StoreService(asio::any_io_executor executor, const StoreLimits& limits, Remark on_remark)
    : hub_(std::make_shared<StoreHub>(std::move(executor), limits, std::move(on_remark))) {}

StoreService::~StoreService() { hub_->stop(); }

asio::awaitable<void> StoreService::serve(asio::ip::tcp::socket socket, std::string first_bytes) {
    return serve_connection(hub_, std::move(socket), std::move(first_bytes));
}

ConnectionId StoreService::attach(std::shared_ptr<StorePipe> pipe) { return hub_->attach(std::move(pipe)); }

void StoreService::feed(ConnectionId client, std::string_view bytes) { hub_->feed(client, bytes); }

void StoreService::resume(ConnectionId client) { hub_->resume(client); }

void StoreService::finish(ConnectionId client) { hub_->finish(client); }

void StoreService::detach(ConnectionId client) { hub_->detach(client); }

void StoreService::clear() { hub_->clear(); }

StoreService::Counters StoreService::counters() const { return hub_->counters(); }

asio::awaitable<void> StoreService::serve_connection(std::shared_ptr<StoreHub> hub,
                                                     asio::ip::tcp::socket socket, std::string first_bytes) {
    std::shared_ptr<StoreConnection> connection = hub->open(std::move(socket), first_bytes);
    if (!connection) co_return;
    struct Removal {
        StoreHub& hub;
        StoreConnection& connection;
        ~Removal() { hub.remove(connection); }
    } removal{*hub, *connection};
    if (connection->is_open()) co_await connection->over.async_wait(asio::as_tuple(asio::use_awaitable));
}

}  // namespace ddprun::inline base
