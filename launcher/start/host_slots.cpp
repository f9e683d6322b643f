#include "launcher/start/host_slots.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "launcher/cluster/host_list.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/text/number_text.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::string_view kHostBlanks = " \t\r\n", kHostSeparators = ", \t\r\n";
constexpr std::size_t kMaxHostShown = 80;

std::string shown_host(std::string_view text) { return harmless_line(text, kMaxHostShown); }

struct HostItem {
    std::string user;  // with its "@"
    std::vector<std::string> names;
    std::optional<int> slots;
};

bool is_user(std::string_view text) {
    const auto is_fit = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '.' || c == '-';
    };
    // A remote shell would take one that begins so for an option.
    return !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), is_fit);
}

std::optional<std::string> read_slots(std::string_view text, HostItem& item) {
    item.slots = parse_slots(text);
    if (item.slots) return std::nullopt;
    return fmt::format("'{}' is no number of slots from 0 to {}", shown_host(text), kMaxWorkersPerNode);
}

// Finds the colon in front of the slots, which is outside brackets.
std::size_t colon_of_slots(std::string_view text) {
    const auto bracket = text.rfind(']');
    return text.find(':', bracket == text.npos ? 0 : bracket);
}

// Reads [fd00::1] or [fd00::1]:8.
std::optional<std::string> read_address(std::string_view text, std::size_t close, HostItem& item) {
    item.names = {std::string(text.substr(1, close - 1))};
    const std::string_view rest = text.substr(close + 1);
    if (rest.empty()) return std::nullopt;
    if (rest.front() != ':') return "behind an address in brackets only :SLOTS may follow";
    return read_slots(rest.substr(1), item);
}

std::optional<std::string> read_names(std::string_view text, HostItem& item) {
    const auto colon = colon_of_slots(text);
    auto names = names_of_item(text.substr(0, colon));
    if (const auto* wrong = std::get_if<std::string>(&names)) return *wrong;
    item.names = std::get<std::vector<std::string>>(std::move(names));
    if (colon == text.npos) return std::nullopt;
    const std::string_view slots = text.substr(colon + 1);
    if (slots.find(':') != slots.npos) return "an IPv6 address stands in brackets";
    return read_slots(slots, item);
}

std::optional<std::string> read_host_item(std::string_view text, HostItem& item) {
    if (const auto at = text.find('@'); at != text.npos) {
        if (!is_user(text.substr(0, at))) return "what stands before the @ is no name of a user";
        item.user = text.substr(0, at + 1);
        text.remove_prefix(at + 1);
    }
    const auto close = text.find(']');
    const bool is_address =
        text.starts_with('[') && close != text.npos && text.substr(0, close).find(':') != text.npos;
    if (auto wrong = is_address ? read_address(text, close, item) : read_names(text, item)) return wrong;
    for (const std::string& name : item.names) {
        if (!is_valid_host(name)) return fmt::format("'{}' is no name of a host", shown_host(name));
    }
    return std::nullopt;
}

void skip_host_blanks(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(kHostBlanks), text.size()));
}

std::optional<std::string> read_host_line(std::string_view line, HostCollection& hosts) {
    const auto words = words_between_blanks(line.substr(0, line.find('#')));
    if (words.empty()) return std::nullopt;
    std::optional<int> slots;
    for (const std::string_view word : std::span(words).subspan(1)) {
        const auto equals = std::min(word.find('='), word.size());
        const std::string_view name = word.substr(0, equals);
        const std::string_view value = word.substr(std::min(equals + 1, word.size()));
        const bool is_slots = name == "slots";
        if (!is_slots && name != "max_slots" && name != "max-slots")
            return fmt::format("'{}' is not known here; write HOST slots=N", shown_host(word));
        const auto number = parse_slots(value);
        if (!number) return fmt::format("'{}' is no number of slots; write slots=8", shown_host(word));
        if (is_slots && slots) return "slots= stands there twice";
        if (is_slots) slots = number;
    }
    const auto wrong = hosts.add(words.front(), slots);
    return wrong ? std::optional(named_item(words.front(), *wrong)) : std::nullopt;
}

// Slots by host; an empty set stands for all of them.
using Chosen = std::map<std::size_t, std::set<int>>;

// Hosts, and words of slots behind the colon; without one all slots are meant.
struct ChosenItem {
    std::string_view names;
    std::vector<std::string_view> slots;
};

// An empty text counts, too: it is a word that was forgotten.
bool is_slot_word(std::string_view text) { return text.find_first_not_of("0123456789-") == text.npos; }

ChosenItem item_of(std::string_view text) {
    const auto colon = colon_of_slots(text);
    ChosenItem item{.names = text.substr(0, colon), .slots = {}};
    if (colon != text.npos) item.slots.push_back(text.substr(colon + 1));
    return item;
}

std::vector<ChosenItem> items_of(std::string_view text) {
    std::vector<ChosenItem> items;
    for (const std::string_view part : split_at(text, '@')) {
        const std::size_t before = items.size();
        for (std::size_t begin = 0; begin <= part.size();) {
            const std::string_view word = next_list_item(part.substr(begin), ",");
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

// Finds places by name; the first one counts of several that differ by the user.
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
        const auto span = parse_span(word, 0, kMaxWorkersPerNode);
        if (!span || span->first > span->last)
            return fmt::format("'{}' is no slot and no range", shown_host(word));
        if (span->last >= host.slots)
            return fmt::format("slot {} of {}, which has slots 0 to {}", span->last, host.target,
                               host.slots - 1);
        for (int slot = span->first; slot <= span->last; ++slot) slots.insert(slot);
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
            if (place == places.end()) return fmt::format("'{}' is none of the hosts", shown_host(name));
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

std::string host_of(std::string_view target) {
    return std::string(target.substr(target.find('@') + 1));  // Without one, npos + 1 is 0.
}

std::optional<int> parse_slots(std::string_view text) {
    return whole_number<int>(text, 0, kMaxWorkersPerNode);
}

std::optional<std::string> HostCollection::add(std::string_view item, std::optional<int> slots) {
    HostItem read;
    auto wrong = read_host_item(item, read);
    if (!wrong && slots && read.slots) wrong = "its slots are said twice";
    if (!wrong && hosts_.size() + read.names.size() > kMaxListedHosts)
        wrong = fmt::format("more than {} hosts", kMaxListedHosts);
    if (wrong) return wrong;
    for (const std::string& name : read.names)
        add_host(read.user + name, read.slots ? *read.slots : slots.value_or(kUnsaidSlots));
    return std::nullopt;
}

void HostCollection::add_host(const std::string& target, int slots) {
    const auto [place, is_new] = places_.try_emplace(target, hosts_.size());
    if (is_new) {
        hosts_.push_back({.target = target, .slots = slots});
        return;
    }
    const auto counted = [](int said) { return said == kUnsaidSlots ? 1 : said; };
    int& sum = hosts_[place->second].slots;
    sum = std::min(counted(sum) + counted(slots), kMaxWorkersPerNode);
}

std::variant<std::vector<std::string>, std::string> names_of_item(std::string_view text) {
    auto names = expand_host_list(text);
    if (const auto* wrong = std::get_if<std::string>(&names)) {
        // The item is named by the caller.
        const std::string prefix = shown_host(text) + ": ";
        return wrong->starts_with(prefix) ? wrong->substr(prefix.size()) : *wrong;
    }
    return names;
}

std::string named_item(std::string_view item, std::string_view wrong) {
    return fmt::format("{}: {}", shown_host(item), wrong);
}

std::variant<std::vector<HostSlots>, std::string> parse_hosts(std::string_view text) {
    if (text.size() > kMaxHostListText) return fmt::format("longer than {} bytes", kMaxHostListText);
    HostCollection hosts;
    skip_host_blanks(text);
    if (text.empty()) return "names no host";
    for (bool is_first = true;; is_first = false) {
        const std::string_view item = next_list_item(text, kHostSeparators);
        text.remove_prefix(item.size());
        skip_host_blanks(text);
        auto wrong = hosts.add(item);
        const bool is_alone = item.empty() || (is_first && text.empty());
        if (wrong) return is_alone ? std::move(*wrong) : named_item(item, *wrong);
        if (text.empty()) return hosts.take();
        if (text.front() == ',') text.remove_prefix(1);
        skip_host_blanks(text);
    }
}

std::variant<std::vector<HostSlots>, std::string> parse_host_file(std::string_view text,
                                                                  std::string_view file) {
    HostCollection hosts;
    std::size_t number = 0;
    for (const std::string_view line : split_at(text, '\n')) {
        ++number;
        if (const auto wrong = read_host_line(line, hosts))
            return fmt::format("{}:{}: {}", file, number, *wrong);
    }
    auto found = hosts.take();
    if (found.empty()) return fmt::format("{}: names no host", file);
    return found;
}

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

}  // namespace launch
}  // namespace ddprun
