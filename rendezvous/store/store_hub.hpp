// StoreHub: everything that the clients of one StoreService share. Kept alive by each client's coroutine, and by what it
// waits for itself; on the store's thread.
//
// A batch is: read what is ready, serve it, then send all replies. A client is removed only between batches.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/net/ready_set.hpp"
#include "rendezvous/store/store_connection.hpp"
#include "rendezvous/store/store_terms.hpp"

namespace ddprun::inline base {

class StoreHub final : public Outboxes, public std::enable_shared_from_this<StoreHub> {
  public:
    StoreHub(boost::asio::any_io_executor executor, const StoreLimits& limits, StoreRemark on_remark);

    // Null: there are too many. Who opened it removes it, once it is no longer open.
    std::shared_ptr<StoreConnection> open(boost::asio::ip::tcp::socket socket, std::string_view first_bytes);
    void remove(StoreConnection& connection);

    // As StoreService has them. These remove themselves.
    ConnectionId attach(std::shared_ptr<StorePipe> pipe);
    void feed(ConnectionId id, std::string_view bytes);
    void resume(ConnectionId id);
    void finish(ConnectionId id);
    void detach(ConnectionId id);

    Outbox& outbox(ConnectionId id) override;
    bool has_room(ConnectionId id, std::size_t bytes) override;

    void clear();
    void stop();
    StoreCounters counters() const;

  private:
    bool is_full(std::size_t clients, std::size_t most);
    void stay_within(std::size_t bytes);
    void arm();
    void serve_ready();
    void serve(StoreConnection& connection, std::string_view bytes);
    void serve_event(StoreConnection& connection, std::uint32_t events);
    void receive(StoreConnection& connection);
    void serve_turn(StoreConnection& connection);
    void serve_later(StoreConnection& connection);
    void serve_unfinished();
    void mark_dirty(StoreConnection& connection);
    void finish_batch();
    void send(StoreConnection& connection);
    void drain_later(StoreConnection& connection);
    void drained(StoreConnection& connection);
    void ask_for_more(StoreConnection& connection);
    void account(StoreConnection& connection);
    void relieve();
    void give_back();
    void watch_progress(StoreConnection& connection);
    void refuse(StoreConnection& connection, std::string_view why);
    void close(StoreConnection& connection);
    static void cancel_deadlines(StoreConnection& connection);
    void end_pipe(StoreConnection& connection);
    void remove_ended();
    template <typename Work>
    void within_memory(StoreConnection& connection, Work work);

    boost::asio::any_io_executor executor_;
    StoreLimits limits_;
    StoreState state_;
    ReadySet ready_;
    bool armed_ = false;  // a wait for the ready set is under way
    Request request_;     // scratch, kept for its capacity
    std::unordered_map<ConnectionId, StoreConnection*> connections_;
    std::unordered_map<ConnectionId, std::shared_ptr<StoreConnection>> piped_;  // of these
    std::vector<ConnectionId> ended_pipes_;
    std::vector<StoreConnection*> dirty_;
    std::vector<ConnectionId> unfinished_;
    ConnectionId last_id_ = 0;
    std::size_t buffered_ = 0;
    std::size_t peak_ = 0;  // of all memory, since it was given back last
    StoreCounters counters_;
    bool stopped_ = false;
    StoreRemark on_remark_;  // for the first time that the store is full
};

}  // namespace ddprun::inline base
