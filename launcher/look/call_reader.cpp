#include "launcher/look/call_reader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "rendezvous/worker/call_page.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMostPages = 4;  // a process may have the library more than once
constexpr int kMostTries = 8;          // a slot changes once in many microseconds

bool is_call_page(const Mapping& mapping) {
    return mapping.path.starts_with(kCallPageInMaps) && mapping.offset == 0 &&
           mapping.end - mapping.begin >= sizeof(CallPageCopy);
}

std::string name_at(const CallPageCopy& page, std::size_t place) {
    if (place >= page.names.size()) return {};
    const auto& name = page.names[place];
    const std::string text(name.begin(), std::find(name.begin(), name.end(), '\0'));
    const bool is_name = std::all_of(text.begin(), text.end(),
                                     [](char sign) { return (sign >= 'a' && sign <= 'z') || sign == '_'; });
    return is_name ? text : std::string();
}

// Returns the slot as it was at one moment; nothing if it cannot be read, or changes all the time.
std::optional<CallSlotCopy> settled(const MemoryReader& memory, std::uintptr_t address) {
    auto before = memory.value<CallSlotCopy>(address);
    for (int i = 0; before && i < kMostTries; ++i) {
        const auto slot = memory.value<CallSlotCopy>(address);
        const auto after = memory.value<CallSlotCopy>(address);
        if (!slot || !after) return std::nullopt;
        if (before->turn == after->turn && after->turn % 2 == 0) return slot;
        before = after;
    }
    return std::nullopt;
}

std::optional<PublishedWait> wait_in(const CallSlotCopy& slot) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!call_of(slot.call).is_open || slot.waiting_call != slot.call || slot.since_ns > kMost)
        return std::nullopt;
    const WaitWord about = wait_of(slot.about);
    PublishedWait wait{static_cast<std::int64_t>(slot.since_ns), about.is_main, {}};
    for (std::size_t i = 0; i < about.awaited; ++i) wait.awaited.push_back(awaited_rank(slot.awaited, i));
    return wait;
}

PublishedCall call_in(const CallPageCopy& page, const CallSlotCopy& slot) {
    const CallWord call = call_of(slot.call);
    return {name_at(page, call.operation), fmt::format("{:016x}", slot.group), call.number, slot.call >> 8,
            wait_in(slot)};
}

// Found: a call with what makes it the one to tell of; the greatest is.
struct Found {
    bool main_waits = false;
    bool waits = false;
    bool is_latest = false;
    std::int64_t since_ns = 0;
    PublishedCall call;

    auto weight() const { return std::tuple(main_waits, waits, is_latest, since_ns); }
};

void look_into(const MemoryReader& memory, std::uintptr_t address, std::optional<Found>& best) {
    const auto page = memory.value<CallPageCopy>(address);
    if (!page || page->magic != kCallPageMagic || page->version != kCallPageVersion) return;
    const std::uintptr_t slots = address + offsetof(CallPageCopy, slots);
    for (std::size_t i = 0; i < page->slots.size(); ++i) {
        CallSlotCopy slot = page->slots[i];
        if (slot.call == 0 || slot.group == 0) continue;
        if (wait_in(slot)) {
            const auto at_once = settled(memory, slots + i * sizeof(CallSlotCopy));
            if (at_once) slot = *at_once;
            if (!at_once) slot.waiting_call = 0;
            if (slot.call == 0 || slot.group == 0) continue;
        }
        Found found{.is_latest = page->latest == i, .call = call_in(*page, slot)};
        if (const auto& wait = found.call.wait) {
            found.waits = true;
            found.main_waits = wait->is_main;
            found.since_ns = wait->since_ns;
        }
        if (!best || found.weight() > best->weight()) best = std::move(found);
    }
}

}  // namespace

bool publishes_calls(const std::vector<Mapping>& mappings) {
    return std::any_of(mappings.begin(), mappings.end(), is_call_page);
}

std::optional<PublishedCall> read_published_call(const MemoryReader& memory,
                                                 const std::vector<Mapping>& mappings) {
    std::optional<Found> best;
    std::size_t pages = 0;
    for (const Mapping& mapping : mappings) {
        if (!is_call_page(mapping)) continue;
        if (++pages > kMostPages) break;
        look_into(memory, mapping.begin, best);
    }
    if (!best) return std::nullopt;
    return std::move(best->call);
}

}  // namespace launch
}  // namespace ddprun
