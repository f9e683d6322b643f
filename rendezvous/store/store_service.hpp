// StoreService serves the store to TCP connections: the Asio shell around StoreState.
//
// The owner accepts connections (a StoreHost, or the coordinator's port after it has seen a store client's
// first byte) and co_spawns serve() for each. Everything runs on the one thread of the executor. A peer that
// is slow, half-open, silent or hostile costs bounded memory and never holds up another. No function here
// blocks, and a connection is read only while its replies are being taken.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/net/ready_set.hpp"
#include "rendezvous/store/outbox.hpp"
#include "rendezvous/store/store_connection.hpp"
#include "rendezvous/store/store_state.hpp"
#include "rendezvous/store/wait_table.hpp"

namespace ddprun {
inline namespace base {

// StoreLimits bound a StoreService. Where the process may take little memory, each sum of memory is at most
// an eighth of memory_limit().
struct StoreLimits {
    std::size_t connections = 16384;
    std::size_t pipes = std::size_t{1} << 18;  // clients without a socket, not counted above
    // newcomers: connections without a request yet; when there are more, the oldest is closed. If it is below
    // `connections`, silent connections keep no client out, but old PyTorch's second connections, which never
    // say anything, may be closed, too.
    std::size_t newcomers = connections;
    // request_progress: within this time a request that has begun is complete, or another MiB of it has come.
    // Silence between requests is no offence.
    std::chrono::milliseconds request_progress{30'000};
    // stalled_output: a connection that does not take its replies is closed after this time, or at
    // pending_output bytes of replies.
    std::chrono::milliseconds stalled_output{60'000};
    std::size_t pending_output = kMaxReplyLength + kMaxValueLength;
    // buffered: half-received requests and replies not taken yet, of all connections; values that the store
    // holds, too, do not count. When it is more, the connections that hold most are closed, but none that
    // holds less than a MiB.
    std::size_t buffered = std::size_t{1} << 30;
    // stored: bytes of keys, queues and waits.
    std::size_t stored = kMaxStoreBytes;
};

class StoreService final : private Outboxes, public std::enable_shared_from_this<StoreService> {
  public:
    // kNoConnection is the number of no client.
    static constexpr ConnectionId kNoConnection = 0;
    // Remark tells, on the executor, what the owner's user should know: once, that the store is full, and of
    // what.
    using Remark = std::function<void(const std::string& sentence)>;

    struct Counters {
        std::size_t connections = 0;      // open now
        std::size_t keys = 0;             // stored now
        std::size_t bytes = 0;            // stored now, as counted against the limit
        std::uint64_t accepted = 0;       // connections since the start
        std::uint64_t refused = 0;        // of the accepted ones, closed by us for what the peer did
        std::uint64_t requests = 0;       // since the start
        std::string_view last_refusal{};  // the reason, for the log
    };

    // Returns the owner's pointer. When it and its copies are gone, every connection is closed. What waits
    // for connections keeps the object itself until then; each serve() ends by itself when the executor runs
    // on.
    static std::shared_ptr<StoreService> make(boost::asio::any_io_executor executor,
                                              const StoreLimits& limits = {}, Remark on_remark = {});

    // Serves one connection until it is over. `first_bytes`, perhaps none, were read from the socket already.
    // Never throws for what a peer does; may outlive the owner's pointer.
    boost::asio::awaitable<void> serve(boost::asio::ip::tcp::socket socket, std::string first_bytes);

    // Adds a client without a socket; returns its number, or kNoConnection if there are too many. No more is
    // fed than was served, beside a window of the pipe's own.
    ConnectionId attach(std::shared_ptr<StorePipe> pipe);
    void feed(ConnectionId id, std::string_view bytes);
    // Tells that the pipe has room again.
    void resume(ConnectionId id);
    // Tells that the client has sent its last: its conversation ends when that is served.
    void finish(ConnectionId id);
    // Tells that the client is gone; its pipe hears nothing more. feed(), resume(), finish() and detach() do
    // nothing for a client that has ended.
    void detach(ConnectionId id);

    // Empties the store for a new round: every key is forgotten and every connection closed, so that no
    // straggler of the old round can read or write in the new one. Called when the old workers are dead and
    // before new ones can connect.
    void clear();

    Counters counters() const;

  private:
    StoreService(boost::asio::any_io_executor executor, const StoreLimits& limits, Remark on_remark);

    Outbox& outbox(ConnectionId id) override;
    bool has_room(ConnectionId id, std::size_t bytes) override;

    std::shared_ptr<StoreConnection> open(boost::asio::ip::tcp::socket socket, std::string_view first_bytes);
    void remove(StoreConnection& connection);
    void stop();
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
    std::unordered_map<ConnectionId, std::shared_ptr<StoreConnection>> piped_;  // without a socket
    std::set<ConnectionId> newcomers_;  // with a socket and no request yet, in order of arrival
    std::vector<ConnectionId> ended_pipes_;
    std::vector<StoreConnection*> dirty_;
    std::vector<ConnectionId> unfinished_;
    ConnectionId last_id_ = 0;
    std::size_t buffered_ = 0;
    std::size_t peak_ = 0;  // of all memory, since the allocator last gave memory back
    Counters counters_;
    bool stopped_ = false;
    Remark on_remark_;  // empty once it was called
};

}  // namespace base
}  // namespace ddprun
