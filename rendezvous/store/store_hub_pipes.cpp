#include <boost/asio/post.hpp>
#include <utility>

#include "rendezvous/store/store_hub.hpp"

namespace ddprun::inline base {

ConnectionId StoreHub::attach(std::shared_ptr<StorePipe> pipe) {
    if (is_full(piped_.size(), limits_.pipes)) return kNoStoreConnection;
    auto connection = std::make_shared<StoreConnection>(++last_id_, std::move(pipe), executor_);
    connections_.emplace(connection->id, connection.get());
    piped_.emplace(connection->id, connection);
    return connection->id;
}

void StoreHub::feed(ConnectionId id, std::string_view bytes) {
    const auto found = piped_.find(id);
    if (found == piped_.end() || !found->second->is_open()) return;
    StoreConnection& connection = *found->second;
    connection.received += bytes.size();
    connection.fed += bytes.size();
    mark_dirty(connection);
    serve(connection, bytes);
    finish_batch();
}

void StoreHub::resume(ConnectionId id) {
    const auto found = piped_.find(id);
    if (found == piped_.end() || !found->second->draining) return;
    drained(*found->second);
    finish_batch();
}

void StoreHub::finish(ConnectionId id) {
    const auto found = piped_.find(id);
    if (found == piped_.end()) return;
    found->second->has_finished = true;
    mark_dirty(*found->second);
    finish_batch();
}

void StoreHub::detach(ConnectionId id) {
    const auto found = piped_.find(id);
    if (found == piped_.end()) return;
    const std::shared_ptr<StoreConnection> connection = found->second;
    piped_.erase(found);
    // It is its owner that ends the conversation, and need not be told.
    connection->pipe.reset();
    cancel_deadlines(*connection);
    remove(*connection);
}

// What ended in the middle of a batch is removed behind it.
void StoreHub::end_pipe(StoreConnection& connection) {
    std::exchange(connection.pipe, nullptr)->ended();
    ended_pipes_.push_back(connection.id);
    if (ended_pipes_.size() > 1) return;
    boost::asio::post(executor_, [hub = shared_from_this()] { hub->remove_ended(); });
}

void StoreHub::remove_ended() {
    for (const ConnectionId id : std::exchange(ended_pipes_, {})) {
        const auto found = piped_.find(id);
        if (found == piped_.end()) continue;
        const std::shared_ptr<StoreConnection> connection = found->second;
        piped_.erase(found);
        remove(*connection);
    }
}

}  // namespace ddprun::inline base
