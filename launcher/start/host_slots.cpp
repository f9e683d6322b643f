#include "launcher/start/host_slots.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/cluster/host_list.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kHostSeparators = ", \t\r\n";
constexpr std::size_t kMaxHostShown = 80;

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
    return fmt::format("'{}' is no number of slots from 0 to {}", harmless_line(text, kMaxHostShown),
                       kMaxWorkersPerNode);
}

// [fd00::1] or [fd00::1]:8
std::optional<std::string> read_address(std::string_view text, std::size_t close, HostItem& item) {
    item.names = {std::string(text.substr(1, close - 1))};
    const std::string_view rest = text.substr(close + 1);
    if (rest.empty()) return std::nullopt;
    if (rest.front() != ':') return "behind an address in brackets only :SLOTS may follow";
    return read_slots(rest.substr(1), item);
}

std::optional<std::string> read_names(std::string_view text, HostItem& item) {
    const auto bracket = text.rfind(']');
    const auto colon = text.find(':', bracket == text.npos ? 0 : bracket);
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
        if (!is_valid_host(name))
            return fmt::format("'{}' is no name of a host", harmless_line(name, kMaxHostShown));
    }
    return std::nullopt;
}

// Up to the next separator outside brackets.
std::string_view take_host_item(std::string_view& text) {
    bool in_bracket = false;
    const auto ends = [&in_bracket](char c) {
        if (c == '[' || c == ']') in_bracket = c == '[';
        return !in_bracket && kHostSeparators.find(c) != kHostSeparators.npos;
    };
    const auto end = static_cast<std::size_t>(std::find_if(text.begin(), text.end(), ends) - text.begin());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(kHostSeparators), text.size()));
    return item;
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
        const std::string prefix = harmless_line(text, kMaxHostShown) + ": ";
        return wrong->starts_with(prefix) ? wrong->substr(prefix.size()) : *wrong;
    }
    return names;
}

std::string named_item(std::string_view item, std::string_view wrong) {
    return fmt::format("{}: {}", harmless_line(item, kMaxHostShown), wrong);
}

std::variant<std::vector<HostSlots>, std::string> parse_hosts(std::string_view text) {
    if (text.size() > kMaxHostListText) return fmt::format("longer than {} bytes", kMaxHostListText);
    HostCollection hosts;
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (text.empty()) return "names no host";
    for (bool is_first = true; !text.empty(); is_first = false) {
        const std::string_view item = take_host_item(text);
        auto wrong = hosts.add(item);
        const bool is_alone = item.empty() || (is_first && text.empty());
        if (wrong) return is_alone ? std::move(*wrong) : named_item(item, *wrong);
    }
    return hosts.take();
}

}  // namespace ddprun::inline launch
