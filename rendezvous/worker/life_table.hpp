// LifeTable is memory that an agent shares with the workers of its node, through which they tell each other
// of deaths at once.
//
// When a process is killed, the kernel first frees its memory, 60 ms a GiB, and only then closes its
// connections and tells its parent. But before that, the kernel marks the robust futexes of the process's
// threads and wakes the threads that sleep on them. A worker on which others rely therefore holds the word of
// its slot in the table:
//   worker → agent   the agent sleeps on the words that are held, one thread each;
//   agent → workers  the agent adds each lost life, of its node or another, to a list, and wakes a thread of
//   each
//                    worker, which sleeps on a counter of its slot.
// A life is the time for which one process holds a slot. A random number, never 0, names the life on all
// nodes; the ranks of a communicator tell each other their lives' numbers when they join.
//
// The table is the agent's memfd, which workers open through /proc by the value of DDPRUN_LIFE. A worker that
// cannot open it (another user, another PID namespace) goes without, and its peers learn of its death when
// its connections close. Nothing that a worker writes into the table can harm the agent.
//
// The store of `lost_count` releases the entries before it. `wakeups`, `claims` and the bit of waiters in
// `word` release what was written before a wake to the thread that reads them before it looks and sleeps.
//
// Any thread and process may call the functions on a slot. The agent calls create(), announce(), take_death()
// and the functions on claims; workers call open(), claim() and release().
// docs.kernel.org/locking/robust-futex-ABI.html.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace base {

inline constexpr char kLifeVariable[] = "DDPRUN_LIFE";
inline constexpr int kMaxLifeSlots = 256;  // workers of one node; more go without
// kMaxLostLives: how many lives can be announced in one round. Later ones are not announced; peers notice
// them by their connections.
inline constexpr std::size_t kMaxLostLives = 1024;

// LifeSlot says which slot of which table a worker has.
struct LifeSlot {
    ShmOffer offer;
    int slot = 0;
};

// to_string() returns `PID:DESCRIPTOR:SLOT`, the value of DDPRUN_LIFE.
std::string to_string(const LifeSlot& slot);
std::optional<LifeSlot> parse_life_slot(std::string_view text);

class LifeTable {
  public:
    // Makes the table; nothing where the system refuses.
    static std::optional<LifeTable> create();
    static std::optional<LifeTable> open(const LifeSlot& slot);

    // Returns the slot for a worker's environment; the table keeps the descriptor.
    LifeSlot slot(int number) const noexcept { return {mapping_.offer(), number}; }

    // Claims the slot for the calling thread, which has told the kernel that the word of `slot` is its robust
    // futex; see word(). Returns false if another living process holds the slot.
    bool claim(int slot, std::uint64_t life);
    // Gives up the slot; called by the thread that claimed it, when the worker leaves in order.
    void release(int slot);
    std::atomic<std::uint32_t>& word(int slot) const;

    // Counts the claims, and the calls of wake_claim_watcher(). wait_for_claim() sleeps until the count is
    // not `seen`; it may also return without cause.
    std::uint32_t claims() const;
    void wait_for_claim(std::uint32_t seen) const;
    void wake_claim_watcher();
    // Says whether the slot is held by a process, or by one that has died.
    bool is_claimed(int slot) const { return word(slot).load() != 0; }

    // Returns the life that ended with the slot's holder, once; 0 if the holder died before it named its
    // life.
    std::optional<std::uint64_t> take_death(int slot);
    // Sleeps until the holder has died, wake_watcher() was called, or without cause. Does not sleep if `stop`
    // is set (before wake_watcher() is called), or if there is a death to take.
    void wait_for_death(int slot, const std::atomic<bool>& stop);
    void wake_watcher(int slot);

    // Adds a lost life to the list and wakes all workers. Called from one thread at a time. Returns false
    // when the list is full.
    bool announce(std::uint64_t life);
    std::uint32_t lost_count() const;
    // Returns an entry of the list; `index` is below lost_count().
    std::uint64_t lost(std::uint32_t index) const;
    // Counts how often wake() was called for the slot's worker. wait_for_wakeup() sleeps until the count is
    // not `wakeups`; it may also return without cause.
    std::uint32_t wakeups(int slot) const;
    void wait_for_wakeup(int slot, std::uint32_t wakeups) const;
    void wake(int slot);

  private:
    struct Layout;

    explicit LifeTable(ShmMapping mapping) : mapping_(std::move(mapping)) {}
    Layout& layout() const noexcept { return *reinterpret_cast<Layout*>(mapping_.base()); }

    ShmMapping mapping_;
};

}  // namespace base
}  // namespace ddprun
