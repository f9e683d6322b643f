// StoreState is the store without sockets and clock: what each request does. Pure. StoreState has a WaitTable
// for waits and one for barriers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/store/outbox.hpp"
#include "rendezvous/store/wait_table.hpp"
#include "rendezvous/store/wire.hpp"

namespace ddprun {
inline namespace base {

// kMaxStoreBytes: the memory that keys, queues and waits together may take, bookkeeping included.
inline constexpr std::size_t kMaxStoreBytes = std::size_t{1} << 30;
// kMaxReplyLength: the bytes of one reply; only multi_get and list_keys can be larger than what one command
// stored.
inline constexpr std::size_t kMaxReplyLength = std::size_t{256} << 20;

// kStoreFull is the refusal of a request that would need more memory.
inline constexpr std::string_view kStoreFull = "the store is full";

// Outboxes say where replies go. The store fills them; the owner sends what is in them.
class Outboxes {
  public:
    Outboxes() = default;
    Outboxes(const Outboxes&) = delete;
    Outboxes& operator=(const Outboxes&) = delete;
    virtual ~Outboxes() = default;
    virtual Outbox& outbox(ConnectionId connection) = 0;
    // Says whether the connection may get this many bytes that it has not asked for just now. If not, it is
    // to be closed, since its watches would have a gap. Asked before the bytes are made.
    virtual bool has_room(ConnectionId connection, std::size_t bytes) = 0;
};

// Refusal says why a connection must be closed; nothing if all is well.
using Refusal = std::optional<std::string_view>;

// StoreState is the store itself: what each request does, and which connections are answered.
//
// StoreService (or a test) drives it: apply() each request of a connection, remove() the connection when it
// ends. Replies, also those to other connections that were waiting, are appended to Outboxes. Keys live in
// one namespace, queues in another; waits look at both. Semantics are those of PyTorch's servers (see
// wire.hpp). Where those differ: get of a missing key answers with an empty value, and compare_set wakes
// waiters when it stores.
class StoreState {
  public:
    explicit StoreState(std::size_t max_bytes = kMaxStoreBytes) : max_bytes_(max_bytes) {}

    // Sets another limit for what is stored from now on.
    void limit(std::size_t max_bytes) { max_bytes_ = max_bytes; }

    // Carries the request out. A refused request stores nothing.
    [[nodiscard]] Refusal apply(ConnectionId connection, const Request& request, Outboxes& out);

    // Drops the waits and watches of a connection that is gone.
    void remove(ConnectionId connection);

    // Forgets all keys, queues and barrier counts. Waits and watches stay with their connections.
    void clear();

    std::size_t key_count() const { return keys_.size(); }
    // Returns the memory that the store takes now, as counted against its limit.
    std::size_t bytes() const { return bytes_ + waits_.bytes() + barriers_.bytes(); }
    // Returns a text for people, as in `3 keys, 900 MiB of at most 1024 MiB, the largest "weights" with 700
    // MiB`. Looks at every key.
    std::string description() const;
    // Counts the bytes of values that only replies under way hold.
    std::size_t orphaned_bytes() const { return *orphans_; }

  private:
    Refusal compare_set(const Request& request, Outbox& reply, Outboxes& out);
    Refusal add(std::string_view key, std::int64_t delta, std::int64_t& sum, Outboxes& out);
    Refusal append(const Request& request, Outboxes& out);
    Refusal multi_get(const Request& request, Outbox& reply) const;
    Refusal multi_set(const Request& request, Outboxes& out);
    Refusal wait(ConnectionId connection, const Request& request, Outboxes& out);
    Refusal barrier(ConnectionId connection, const Request& request, Outboxes& out);
    Refusal queue_push(const Request& request, Outboxes& out);
    void queue_pop(std::string_view key, Outbox& reply);
    Refusal list_keys(std::string& reply) const;
    Refusal watch(ConnectionId connection, std::string_view key, std::string& reply);
    bool erase(std::string_view key, Outboxes& out);

    Refusal store(std::string_view key, std::string_view value, Outboxes& out);
    bool exists(std::string_view key) const;
    std::string_view value_or_empty(std::string_view key) const;
    void put_value(std::string_view key, Outbox& reply) const;
    void drop(std::shared_ptr<StoredValue>& value);
    bool fits(std::size_t more) const { return more <= max_bytes_ && bytes() <= max_bytes_ - more; }
    void answer_waiters(Outboxes& out);
    void tell_watchers(char kind, std::string_view key, const SharedValue& old_value,
                       const SharedValue& new_value, Outboxes& out);

    std::size_t max_bytes_;
    std::size_t bytes_ = 0;
    std::shared_ptr<std::size_t> orphans_ = std::make_shared<std::size_t>(0);
    StringMap<std::shared_ptr<StoredValue>> keys_;
    StringMap<std::list<std::shared_ptr<StoredValue>>> queues_;
    WaitTable waits_;
    WaitTable barriers_;
    StringMap<std::set<ConnectionId>> watches_;
    std::unordered_map<ConnectionId, std::vector<std::string>> watched_by_;
    std::vector<ConnectionId> woken_;        // scratch, kept for its capacity
    std::vector<std::string_view> missing_;  // scratch
};

}  // namespace base
}  // namespace ddprun
