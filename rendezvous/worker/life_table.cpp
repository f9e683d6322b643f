#include "rendezvous/worker/life_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "rendezvous/base/check.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace base {
namespace {

constexpr char kName[] = "ddprun-life";
constexpr std::uint64_t kLifeMagic = 0x3245'4649'4c50'4444;  // "DDPLIFE2"
constexpr std::size_t kLine = 128;

struct alignas(kLine) Slot {
    // The number of the thread that holds it, 0 if nobody does; FUTEX_OWNER_DIED from the kernel,
    // FUTEX_WAITERS and kTaking from the agent.
    std::atomic<std::uint32_t> word;
    std::atomic<std::uint32_t> wakeups;
    std::atomic<std::uint64_t> life;
};

// kTaking: the number of no thread, for the instants in which the agent takes a death. Nobody claims the slot
// then, so that the life that is read is the one that has ended, whatever the slot was used for before.
constexpr std::uint32_t kTaking = FUTEX_TID_MASK;
// kTakingWait, kMostTakingWaits: a claim waits so long, so often at most, since an agent can be stopped in
// those instants.
constexpr std::chrono::milliseconds kTakingWait{10};
constexpr int kMostTakingWaits = 100;

bool is_dead(std::uint32_t value) { return (value & FUTEX_OWNER_DIED) != 0; }

}  // namespace

// The memory begins as zeros.
struct LifeTable::Layout {
    std::uint64_t magic;
    std::atomic<std::uint32_t> claims;
    std::atomic<std::uint32_t> lost_count;
    std::array<std::atomic<std::uint64_t>, kMaxLostLives> lost;
    std::array<Slot, kMaxLifeSlots> slots;

    Slot& slot(int number) {
        check(number >= 0 && number < kMaxLifeSlots, "a slot of the life table");
        return slots[static_cast<std::size_t>(number)];
    }
};

std::string to_string(const LifeSlot& slot) {
    return fmt::format("{}:{}:{}", slot.offer.pid, slot.offer.descriptor, slot.slot);
}

std::optional<LifeSlot> parse_life_slot(std::string_view text) {
    const auto parts = split_at(text, ':');
    if (parts.size() != 3) return std::nullopt;
    const auto pid = whole_number<int>(parts[0], 0);
    const auto descriptor = whole_number<int>(parts[1], 0);
    const auto slot = whole_number<int>(parts[2], 0, kMaxLifeSlots - 1);
    if (!pid || !descriptor || !slot) return std::nullopt;
    return LifeSlot{{*pid, *descriptor}, *slot};
}

std::optional<LifeTable> LifeTable::create() {
    auto mapping = ShmMapping::create(kName, sizeof(Layout));
    if (!mapping) return std::nullopt;
    LifeTable table(std::move(*mapping));
    table.layout().magic = kLifeMagic;
    return table;
}

std::optional<LifeTable> LifeTable::open(const LifeSlot& slot) {
    auto mapping = ShmMapping::open(slot.offer, sizeof(Layout));
    if (!mapping) return std::nullopt;
    LifeTable table(std::move(*mapping));
    if (table.layout().magic != kLifeMagic) return std::nullopt;
    return table;
}

bool LifeTable::claim(int slot, std::uint64_t life) {
    Slot& own = layout().slot(slot);
    std::uint32_t value = own.word.load();
    int waits = 0;
    do {
        for (; (value & FUTEX_TID_MASK) == kTaking && waits < kMostTakingWaits; ++waits) {
            futex_wait_for(own.word, value, kTakingWait);
            value = own.word.load();
        }
        if ((value & FUTEX_TID_MASK) != 0) return false;
    } while (!own.word.compare_exchange_weak(
        value, static_cast<std::uint32_t>(::gettid()) | (value & FUTEX_WAITERS)));
    own.life.store(life);
    wake_claim_watcher();
    return true;
}

std::uint32_t LifeTable::claims() const { return layout().claims.load(); }

void LifeTable::wait_for_claim(std::uint32_t seen) const { futex_wait(layout().claims, seen); }

void LifeTable::wake_claim_watcher() {
    layout().claims.fetch_add(1);
    futex_wake_all(layout().claims);
}

void LifeTable::release(int slot) {
    Slot& own = layout().slot(slot);
    own.life.store(0);
    own.word.fetch_and(FUTEX_WAITERS);
}

std::atomic<std::uint32_t>& LifeTable::word(int slot) const { return layout().slot(slot).word; }

std::optional<std::uint64_t> LifeTable::take_death(int slot) {
    Slot& dead = layout().slot(slot);
    std::uint32_t value = dead.word.load();
    if (!is_dead(value)) return std::nullopt;
    while (!dead.word.compare_exchange_weak(value, kTaking | (value & FUTEX_WAITERS))) {
        if (!is_dead(value)) return std::nullopt;
    }
    const std::uint64_t life = dead.life.exchange(0);
    dead.word.fetch_and(FUTEX_WAITERS);
    futex_wake_all(dead.word);
    return life;
}

// wake_watcher() takes the bit away after `stop` was set: either this thread sees `stop`, or the kernel sees
// another value than this thread saw, and it does not fall asleep.
void LifeTable::wait_for_death(int slot, const std::atomic<bool>& stop) {
    Slot& other = layout().slot(slot);
    const std::uint32_t value = other.word.fetch_or(FUTEX_WAITERS) | FUTEX_WAITERS;
    if (is_dead(value) || stop.load()) return;
    futex_wait(other.word, value);
}

void LifeTable::wake_watcher(int slot) {
    Slot& other = layout().slot(slot);
    other.word.fetch_and(~static_cast<std::uint32_t>(FUTEX_WAITERS));
    futex_wake_all(other.word);
}

bool LifeTable::announce(std::uint64_t life) {
    Layout& table = layout();
    const std::uint32_t count = lost_count();
    if (count >= kMaxLostLives) return false;
    table.lost[count].store(life);
    table.lost_count.store(count + 1);
    for (int slot = 0; slot < kMaxLifeSlots; ++slot) wake(slot);
    return true;
}

std::uint32_t LifeTable::lost_count() const {
    return std::min<std::uint32_t>(layout().lost_count.load(), kMaxLostLives);
}

std::uint64_t LifeTable::lost(std::uint32_t index) const {
    check(index < kMaxLostLives, "an entry of the list of lost lives");
    return layout().lost[index].load();
}

std::uint32_t LifeTable::wakeups(int slot) const { return layout().slot(slot).wakeups.load(); }

void LifeTable::wait_for_wakeup(int slot, std::uint32_t wakeups) const {
    futex_wait(layout().slot(slot).wakeups, wakeups);
}

void LifeTable::wake(int slot) {
    Slot& other = layout().slot(slot);
    other.wakeups.fetch_add(1);
    futex_wake_all(other.wakeups);
}

}  // namespace base
}  // namespace ddprun
