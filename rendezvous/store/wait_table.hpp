// WaitTable knows which connection waits for which keys. Pure.
//
// A WaitTable knows keys and connections, not values: the owner says which keys are missing when a wait
// begins, and when one appears. Every missing key is ticked off once, by the first event for it; a key named
// twice counts twice and is ticked twice. All costs are proportional to the slots touched, so forgetting a
// connection never scans other connections' waits.
#pragma once

#include <boost/intrusive/list.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun {
inline namespace base {

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

}  // namespace base
}  // namespace ddprun
