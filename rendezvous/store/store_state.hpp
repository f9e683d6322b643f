// StoreState is the store without sockets and clock: what each request does. WaitTable knows which connection
// waits for which keys. Pure.
//
// StoreState has a WaitTable for waits and one for barriers. A WaitTable knows keys and connections, not
// values: the owner says which keys are missing when a wait begins, and when one appears. Every missing key
// is ticked off once, by the first event for it; a key named twice counts twice and is ticked twice. All
// costs are proportional to the slots touched, so forgetting a connection never scans other connections'
// waits.
#pragma once

#include <sys/uio.h>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/store/wire.hpp"

namespace ddprun {
inline namespace base {

// StoredValue is a value that the store and any number of replies under way hold together, so that a reply
// costs no copy. A value that only replies hold is an orphan, and counted as such until the last of them is
// sent. The holder of the only reference may change the text.
class StoredValue {
  public:
    explicit StoredValue(std::string_view bytes) : text(bytes) {}
    StoredValue(const StoredValue&) = delete;
    StoredValue& operator=(const StoredValue&) = delete;
    ~StoredValue() {
        if (orphans_) *orphans_ -= text.size();
    }

    // Tells that the store has dropped the value; until the value is gone, its bytes are part of `orphans`.
    void orphan(std::shared_ptr<std::size_t> orphans) {
        orphans_ = std::move(orphans);
        *orphans_ += text.size();
    }

    std::string text;

  private:
    std::shared_ptr<std::size_t> orphans_;
};

using SharedValue = std::shared_ptr<const StoredValue>;

// Outbox holds the replies that one connection has still to take, in their order: short texts of its own, and
// long values by reference. StoreState fills it, the sender empties it; on the store's thread.
class Outbox {
  public:
    // kSharedFrom: the size from which values are held by reference. Shorter ones are copied, since a
    // reference costs more.
    static constexpr std::size_t kSharedFrom = std::size_t{4} << 10;

    // Returns the text to append replies to; valid until the next call of another function.
    std::string& text() { return text_; }
    // Appends the value in the form of put_string().
    void put_value(const SharedValue& value);

    // Counts the bytes that are not sent yet.
    std::size_t pending() const { return text_.size() - text_sent_ + shared_pending_; }
    // Counts its own memory, without values that are shared.
    std::size_t capacity() const;

    // Gathers the next bytes to send, in as many pieces as there is room for at most, and no more than `most`
    // bytes. Returns the number of pieces; they are valid until the next call of another function.
    std::size_t gather(std::span<iovec> pieces, std::size_t most) const;
    // Notes that this number of the gathered bytes was sent.
    void consume(std::size_t count);

    // Drops everything, and frees memory beyond a small rest.
    void clear();

  private:
    struct Reference {
        std::size_t after;  // the value follows when this much of text_ is sent
        SharedValue value;
    };

    void compact();

    std::string text_;
    std::size_t text_sent_ = 0;
    std::deque<Reference> references_;
    std::size_t first_sent_ = 0;      // of the first reference's value
    std::size_t shared_pending_ = 0;  // of all references
};

// ConnectionId names one connection of the store; never reused.
using ConnectionId = std::uint64_t;

// StringHash lets maps with std::string keys be searched by std::string_view without a copy.
struct StringHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <typename Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

class WaitTable {
  public:
    // Returns what one missing key of one wait costs in memory, key included.
    static std::size_t slot_bytes(std::string_view key);

    WaitTable() = default;
    WaitTable(const WaitTable&) = delete;
    WaitTable& operator=(const WaitTable&) = delete;

    // Begins a wait of the connection for the `missing` keys, which must not be empty.
    void add(ConnectionId connection, const std::vector<std::string_view>& missing);

    // Ticks every wait for the key, which has appeared, and appends to `over` the connections that wait for
    // nothing more.
    void wake_all(std::string_view key, std::vector<ConnectionId>& over);
    // Ticks the longest wait for the key only.
    void wake_one(std::string_view key, std::vector<ConnectionId>& over);

    // Drops the connection's waits without an answer.
    void forget(ConnectionId connection);

    std::size_t bytes() const { return bytes_; }
    bool empty() const { return waits_.empty(); }

  private:
    struct Wait;
    struct Slot;
    using SlotList = boost::intrusive::list<Slot, boost::intrusive::constant_time_size<false>>;
    using SlotLists = StringMap<SlotList>;
    using Waits = std::list<Wait>;

    // A Slot is one missing key of one wait, hanging in that key's list until it is ticked off.
    struct Slot : boost::intrusive::list_base_hook<> {
        Wait* wait = nullptr;
        SlotLists::value_type* home = nullptr;
    };

    struct Wait {
        ConnectionId connection = 0;
        std::size_t missing = 0;
        std::vector<Slot> slots;  // never resized: the lists point into it
        Waits::iterator self;
    };

    void tick_first(SlotLists::iterator list, std::vector<ConnectionId>& over);
    void erase_if_empty(SlotLists::iterator list);

    std::unordered_map<ConnectionId, Waits> waits_;
    SlotLists slots_by_key_;  // after waits_, so that the lists go before the slots they link
    std::size_t bytes_ = 0;
};

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
