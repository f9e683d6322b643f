#include "launcher/start/host_selection.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "launcher/harmless_text.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::size_t kMaxPartShown = 80;

// Slots by host; an empty set stands for all of them.
using Chosen = std::map<std::size_t, std::set<int>>;

std::string shown_part(std::string_view text) { return harmless_line(text, kMaxPartShown); }

// Hosts, and words of slots behind the colon; without one all slots are meant.
struct ChosenItem {
    std::string_view names;
    std::vector<std::string_view> slots;
};

// Nothing stands for a word that was forgotten.
bool is_slot_word(std::string_view text) { return text.find_first_not_of("0123456789-") == text.npos; }

ChosenItem item_of(std::string_view text) {
    const auto bracket = text.rfind(']');
    const auto colon = text.find(':', bracket == text.npos ? 0 : bracket);
    ChosenItem item{.names = text.substr(0, colon), .slots = {}};
    if (colon != text.npos) item.slots.push_back(text.substr(colon + 1));
    return item;
}

// Up to the next comma outside brackets.
std::string_view next_word(std::string_view text) {
    bool in_bracket = false;
    const auto ends = [&in_bracket](char c) {
        if (c == '[' || c == ']') in_bracket = c == '[';
        return c == ',' && !in_bracket;
    };
    return text.substr(0,
                       static_cast<std::size_t>(std::find_if(text.begin(), text.end(), ends) - text.begin()));
}

std::vector<ChosenItem> items_of(std::string_view text) {
    std::vector<ChosenItem> items;
    for (const std::string_view part : split_at(text, '@')) {
        const std::size_t before = items.size();
        for (std::size_t begin = 0; begin <= part.size();) {
            const std::string_view word = next_word(part.substr(begin));
            const bool may_be_slot = items.size() > before && !items.back().slots.empty();
            if (may_be_slot && is_slot_word(word))
                items.back().slots.push_back(word);
            else
                items.push_back(item_of(word));
            begin += word.size() + 1;
        }
    }
    return items;
}

// By name; the first one of several that differ by the user.
std::unordered_map<std::string, std::size_t> places_of(const std::vector<HostSlots>& hosts) {
    std::unordered_map<std::string, std::size_t> places;
    for (std::size_t place = 0; place < hosts.size(); ++place)
        places.try_emplace(host_of(hosts[place].target), place);
    return places;
}

std::variant<std::vector<std::string>, std::string> names_of(std::string_view text) {
    const bool is_address = text.starts_with('[') && text.ends_with(']') && text.find(':') != text.npos;
    if (is_address) return std::vector{std::string(text.substr(1, text.size() - 2))};
    if (text.empty()) return std::vector{std::string()};
    return names_of_item(text);
}

std::optional<std::string> read_chosen_slots(const std::vector<std::string_view>& words,
                                             const HostSlots& host, std::set<int>& slots) {
    if (words.empty()) return std::nullopt;
    if (host.slots == kUnsaidSlots)
        return fmt::format("{} has no number of slots in the list, so none can be chosen", host.target);
    for (const std::string_view word : words) {
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
    const auto places = places_of(hosts);
    for (const ChosenItem& item : items_of(text)) {
        const auto names = names_of(item.names);
        if (const auto* wrong = std::get_if<std::string>(&names)) return named_item(item.names, *wrong);
        for (const std::string& name : std::get<std::vector<std::string>>(names)) {
            const auto place = places.find(name);
            if (place == places.end()) return fmt::format("'{}' is none of the hosts", shown_part(name));
            const HostSlots& host = hosts[place->second];
            const auto [entry, is_new] = chosen.try_emplace(place->second);
            if (!is_new) return fmt::format("{} stands there twice", host.target);
            if (auto wrong = read_chosen_slots(item.slots, host, entry->second)) return wrong;
        }
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

}  // namespace ddprun::inline launch
