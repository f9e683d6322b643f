#include "launcher/start/host_selection.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "launcher/harmless_text.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun {
namespace {

constexpr std::size_t kMaxPartShown = 80;

// Slots by host; an empty set stands for all of them.
using Chosen = std::map<std::size_t, std::set<int>>;

std::string shown_part(std::string_view text) { return harmless_line(text, kMaxPartShown); }

std::optional<std::size_t> find_host(const std::vector<HostSlots>& hosts, std::string_view name) {
    for (std::size_t place = 0; place < hosts.size(); ++place) {
        if (hosts[place].target == name || host_of(hosts[place].target) == name) return place;
    }
    return std::nullopt;
}

std::optional<std::string> read_chosen_slots(std::string_view text, const HostSlots& host,
                                             std::set<int>& slots) {
    if (host.slots == kUnsaidSlots)
        return fmt::format("{} has no number of slots in the list, so none can be chosen", host.target);
    for (const std::string_view word : split_at(text, ',')) {
        const auto dash = word.find('-');
        const auto low = whole_number<int>(word.substr(0, dash), 0, kMaxWorkersPerNode);
        const auto high =
            dash == word.npos ? low : whole_number<int>(word.substr(dash + 1), 0, kMaxWorkersPerNode);
        if (!low || !high || *low > *high)
            return fmt::format("'{}' is no slot and no range", shown_part(word));
        if (*high >= host.slots)
            return fmt::format("slot {} of {}, which has slots 0 to {}", *high, host.target, host.slots - 1);
        for (int slot = *low; slot <= *high; ++slot) slots.insert(slot);
    }
    return std::nullopt;
}

std::optional<std::string> read_selection(const std::vector<HostSlots>& hosts, std::string_view text,
                                          Chosen& chosen) {
    for (const std::string_view part : split_at(text, '@')) {
        const auto colon = std::min(part.rfind(':'), part.size());
        const auto place = find_host(hosts, part.substr(0, colon));
        if (!place) return fmt::format("'{}' is none of the hosts", shown_part(part.substr(0, colon)));
        const auto [entry, is_new] = chosen.try_emplace(*place);
        if (!is_new) return fmt::format("{} stands there twice", hosts[*place].target);
        if (colon == part.size()) continue;
        if (auto wrong = read_chosen_slots(part.substr(colon + 1), hosts[*place], entry->second))
            return wrong;
    }
    return std::nullopt;
}

std::set<int> other_slots(const HostSlots& host, const std::set<int>& slots) {
    std::set<int> others;
    for (int slot = 0; slot < host.slots; ++slot) {
        if (!slots.contains(slot)) others.insert(slot);
    }
    return others;
}

HostSlots with_slots(HostSlots host, const std::set<int>& slots) {
    host.slots = static_cast<int>(slots.size());
    for (const int slot : slots) host.devices += fmt::format("{}{}", host.devices.empty() ? "" : ",", slot);
    return host;
}

}  // namespace

std::variant<std::vector<HostSlots>, std::string> select_hosts(const std::vector<HostSlots>& hosts,
                                                               Selection way, std::string_view text) {
    Chosen chosen;
    if (auto wrong = read_selection(hosts, text, chosen)) return std::move(*wrong);
    std::vector<HostSlots> left;
    for (std::size_t place = 0; place < hosts.size(); ++place) {
        const auto entry = chosen.find(place);
        const bool is_named = entry != chosen.end();
        if (way == Selection::include) {
            if (!is_named) continue;
            left.push_back(entry->second.empty() ? hosts[place] : with_slots(hosts[place], entry->second));
        } else if (!is_named) {
            left.push_back(hosts[place]);
        } else if (!entry->second.empty()) {
            const auto others = other_slots(hosts[place], entry->second);
            if (!others.empty()) left.push_back(with_slots(hosts[place], others));
        }
    }
    if (left.empty()) return "leaves no host";
    return left;
}

}  // namespace ddprun
