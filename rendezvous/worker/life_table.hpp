// LifeTable is memory that an agent shares with the workers of its node, through which they tell each other
// of deaths at once.
//
// When a process is killed, the kernel first frees its memory, 60 ms a GiB, and only then closes its
// connections and tells its parent. But before that it marks the robust futexes of the process's threads and
// wakes the threads that sleep on them. A worker that others rely on therefore holds the word of its slot
// here:
//
//   worker → agent   the agent sleeps on the words that are held, one thread each;
//   agent → workers  the agent adds each lost life, of its node or another, to a list, and wakes a thread
//                    of each worker, which sleeps on a counter of its slot.
//
// A life is the time for which one process holds a slot. A random number, never 0, names it on all nodes; the
// ranks of a communicator tell each other theirs when they join.
//
// The table is a memfd of the agent's, which workers open through /proc by what DDPRUN_LIFE says. A worker
// that cannot (another user, another PID namespace) goes without, and its peers hear of its death when its
// connections close. Nothing that a worker writes into the table can harm the agent.
//
// The store of `lost_count` releases the entries before it. `wakeups`, `claims` and the bit of waiters in
// `word` release what was written before a wake to the thread that reads them before it looks and sleeps.
//
// The functions on a slot may be called from any thread and process; create(), announce(), take_death() and
// those on claims by the agent, open(), claim() and release() by workers.
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
// kMaxLostLives: the lives that can be announced in one round. Later ones are not; their connections tell.
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
    // Gives up the slot in order; called by the thread that claimed it.
    void release(int slot);
    std::atomic<std::uint32_t>& word(int slot) const;

    // Counts the claims, and calls of wake_claim_watcher(). wait_for_claim() sleeps until the count is not
    // `seen`, or for no reason.
    std::uint32_t claims() const;
    void wait_for_claim(std::uint32_t seen) const;
    void wake_claim_watcher();
    // Says whether the slot is held, or its holder has died with it.
    bool is_claimed(int slot) const { return word(slot).load() != 0; }

    // Returns the life of the slot's dead holder, once; 0 if the holder died before it named its life.
    std::optional<std::uint64_t> take_death(int slot);
    // Sleeps until the holder has died, wake_watcher() was called, or for no reason. Does not sleep if
    // `stop`, which is set before wake_watcher(), or if there is a death to take.
    void wait_for_death(int slot, const std::atomic<bool>& stop);
    void wake_watcher(int slot);

    // Adds a lost life to the list and wakes all workers. Called from one thread at a time. Returns false
    // when the list is full.
    bool announce(std::uint64_t life);
    std::uint32_t lost_count() const;
    // Returns an entry of the list; `index` is below lost_count().
    std::uint64_t lost(std::uint32_t index) const;
    // Counts the calls of wake() for the slot. wait_for_wakeup() sleeps until the count is not `wakeups`, or
    // for no reason.
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
