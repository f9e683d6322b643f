#include "rendezvous/worker/life_table.hpp"

#include <algorithm>
#include <charconv>

#include "rendezvous/system/check.hpp"
#include "rendezvous/system/futex.hpp"

namespace ddprun {
namespace {

constexpr char kName[] = "ddprun-life";
constexpr std::uint64_t kLifeMagic = 0x3145'4649'4c50'4444;  // "DDPLIFE1"
constexpr std::size_t kLine = 128;

struct alignas(kLine) Slot {
    // The number of the thread that holds it, 0 if nobody does; FUTEX_OWNER_DIED from the kernel,
    // FUTEX_WAITERS from the agent.
    std::atomic<std::uint32_t> word;
    std::atomic<std::uint32_t> bell;
    std::atomic<std::uint64_t> life;
};

bool is_dead(std::uint32_t value) { return (value & FUTEX_OWNER_DIED) != 0; }

}  // namespace

// The memory begins as zeros.
struct LifeTable::Layout {
    std::uint64_t magic;
    std::atomic<std::uint32_t> lost_count;
    std::array<std::atomic<std::uint64_t>, kMaxLostLives> lost;
    std::array<Slot, kMaxLifeSlots> slots;

    Slot& slot(int number) {
        check(number >= 0 && number < kMaxLifeSlots, "a slot of the life table");
        return slots[static_cast<std::size_t>(number)];
    }
};

std::string to_string(const LifeSeat& seat) {
    return std::to_string(seat.offer.pid) + ':' + std::to_string(seat.offer.descriptor) + ':' +
           std::to_string(seat.slot);
}

std::optional<LifeSeat> parse_life_seat(std::string_view text) {
    std::array<int, 3> numbers{};
    const char* at = text.data();
    const char* const end = at + text.size();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (i > 0 && (at == end || *at++ != ':')) return std::nullopt;
        const auto [stop, error] = std::from_chars(at, end, numbers[i]);
        if (error != std::errc() || numbers[i] < 0) return std::nullopt;
        at = stop;
    }
    if (at != end) return std::nullopt;
    if (numbers[2] >= kMaxLifeSlots) return std::nullopt;
    return LifeSeat{{numbers[0], numbers[1]}, numbers[2]};
}

std::optional<LifeTable> LifeTable::create() {
    auto mapping = ShmMapping::create(kName, sizeof(Layout));
    if (!mapping) return std::nullopt;
    LifeTable table(std::move(*mapping));
    table.layout().magic = kLifeMagic;
    return table;
}

std::optional<LifeTable> LifeTable::open(const LifeSeat& seat) {
    auto mapping = ShmMapping::open(seat.offer, sizeof(Layout));
    if (!mapping) return std::nullopt;
    LifeTable table(std::move(*mapping));
    if (table.layout().magic != kLifeMagic) return std::nullopt;
    return table;
}

bool LifeTable::claim(int slot, std::uint64_t life) {
    Slot& own = layout().slot(slot);
    std::uint32_t value = own.word.load();
    do {
        if ((value & FUTEX_TID_MASK) != 0) return false;
    } while (!own.word.compare_exchange_weak(
        value, static_cast<std::uint32_t>(::gettid()) | (value & FUTEX_WAITERS)));
    own.life.store(life);
    return true;
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
    const std::uint64_t life = dead.life.exchange(0);
    // Another process of the worker may have claimed it meanwhile.
    while (is_dead(value) && !dead.word.compare_exchange_weak(value, value & FUTEX_WAITERS)) {
    }
    return life;
}

// Whoever rouses takes the bit away after `stop` was set: either this thread sees `stop`, or the kernel
// another value than this thread saw, and it does not fall asleep.
void LifeTable::sleep_on_word(int slot, const std::atomic<bool>& stop) {
    Slot& other = layout().slot(slot);
    const std::uint32_t value = other.word.fetch_or(FUTEX_WAITERS) | FUTEX_WAITERS;
    if (is_dead(value) || stop.load()) return;
    futex_wait(other.word, value);
}

void LifeTable::rouse(int slot) {
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
    for (int slot = 0; slot < kMaxLifeSlots; ++slot) ring(slot);
    return true;
}

std::uint32_t LifeTable::lost_count() const {
    return std::min<std::uint32_t>(layout().lost_count.load(), kMaxLostLives);
}

std::uint64_t LifeTable::lost(std::uint32_t index) const {
    check(index < kMaxLostLives, "an entry of the list of lost lives");
    return layout().lost[index].load();
}

std::uint32_t LifeTable::rung(int slot) const { return layout().slot(slot).bell.load(); }

void LifeTable::sleep_on_bell(int slot, std::uint32_t rung) const {
    futex_wait(layout().slot(slot).bell, rung);
}

void LifeTable::ring(int slot) {
    Slot& other = layout().slot(slot);
    other.bell.fetch_add(1);
    futex_wake_all(other.bell);
}

}  // namespace ddprun
