#include "launcher/cluster/host_list.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include "launcher/harmless_text.hpp"
#include "rendezvous/job/failure.hpp"
#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kListBlanks = " \t\r\n";
// Of a list, in a complaint about it.
constexpr std::size_t kMaxItemShown = 80;

struct HostNumbers {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::size_t width = 0;
};

// Either a text or ranges.
struct ItemPart {
    std::string_view text;
    std::vector<HostNumbers> ranges;
};

std::uint64_t hosts_of(const HostNumbers& range) { return range.high - range.low + 1; }

std::string too_many() { return fmt::format("more than {} hosts", kMaxListedHosts); }

bool is_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// What is wrong, in words; the same below.
std::optional<std::string> read_range(std::string_view text, HostNumbers& range) {
    const auto dash = text.find('-');
    const std::string_view low = text.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : text.substr(dash + 1);
    const auto shown = harmless_line(text, kMaxItemShown);
    if (!is_digits(low) || !is_digits(high)) return fmt::format("'{}' is no range like 1-8", shown);
    if (std::max(low.size(), high.size()) > kMaxRangeDigits)
        return fmt::format("the numbers of '{}' have more than {} digits", shown, kMaxRangeDigits);
    range = {*whole_number<std::uint64_t>(low), *whole_number<std::uint64_t>(high), low.size()};
    if (range.low > range.high) return fmt::format("the range {} runs backwards", shown);
    if (hosts_of(range) > kMaxListedHosts) return too_many();
    return std::nullopt;
}

std::optional<std::string> read_bracket(std::string_view text, ItemPart& part) {
    for (const std::string_view word : split_at(text, ',')) {
        if (auto wrong = read_range(word, part.ranges.emplace_back())) return wrong;
    }
    return std::nullopt;
}

std::optional<std::string> read_parts(std::string_view item, std::vector<ItemPart>& parts) {
    std::size_t brackets = 0;
    while (!item.empty()) {
        const auto end = std::min(item.find_first_of("[]"), item.size());
        if (end > 0) parts.push_back({item.substr(0, end), {}});
        item.remove_prefix(end);
        if (item.empty()) break;
        if (item.front() == ']') return "a ']' without its '['";
        const auto close = item.find(']');
        if (close == std::string_view::npos) return "a '[' without its ']'";
        if (++brackets > kMaxBrackets) return fmt::format("more than {} brackets in one name", kMaxBrackets);
        if (auto wrong = read_bracket(item.substr(1, close - 1), parts.emplace_back())) return wrong;
        item.remove_prefix(close + 1);
    }
    return std::nullopt;
}

// A part's hosts; many for what is more than kMaxListedHosts.
std::uint64_t hosts_of(const ItemPart& part) {
    std::uint64_t count = part.ranges.empty() ? 1 : 0;
    for (const HostNumbers& range : part.ranges) count += hosts_of(range);
    return count;
}

std::size_t longest_of(const ItemPart& part) {
    std::size_t longest = part.text.size();
    for (const HostNumbers& range : part.ranges)
        longest = std::max(longest, std::max(range.width, std::to_string(range.high).size()));
    return longest;
}

std::vector<std::string> extend(const std::vector<std::string>& names, const ItemPart& part) {
    std::vector<std::string> longer;
    for (const std::string& name : names) {
        if (part.ranges.empty()) longer.push_back(name + std::string(part.text));
        for (const auto& [low, high, width] : part.ranges) {
            for (std::uint64_t number = low; number <= high; ++number)
                longer.push_back(fmt::format("{}{:0{}}", name, number, width));
        }
    }
    return longer;
}

std::optional<std::string> expand_item(std::string_view item, std::vector<std::string>& hosts) {
    std::vector<ItemPart> parts;
    if (auto wrong = read_parts(item, parts)) return wrong;
    std::uint64_t count = 1;
    std::size_t longest = 0;
    for (const ItemPart& part : parts) {
        count *= hosts_of(part);
        longest += longest_of(part);
        if (count > kMaxListedHosts - hosts.size()) return too_many();
        if (longest > kMaxHostText) return fmt::format("a name of more than {} bytes", kMaxHostText);
    }
    std::vector<std::string> names{""};
    for (const ItemPart& part : parts) names = extend(names, part);
    hosts.insert(hosts.end(), names.begin(), names.end());
    return std::nullopt;
}

// Up to the next separator outside brackets.
std::string_view take_item(std::string_view& text) {
    bool in_bracket = false;
    const auto ends = [&in_bracket](char c) {
        if (c == '[' || c == ']') in_bracket = c == '[';
        return !in_bracket && (c == ',' || kListBlanks.find(c) != std::string_view::npos);
    };
    const auto end = static_cast<std::size_t>(std::find_if(text.begin(), text.end(), ends) - text.begin());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(end);
    return item;
}

void skip_blanks(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(kListBlanks), text.size()));
}

std::string lower_case(std::string_view text) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return lower;
}

// Of names in lower case: one is the first label of the other.
bool is_short_form(std::string_view one, std::string_view other) {
    if (one.size() > other.size()) std::swap(one, other);
    return !one.empty() && one.size() < other.size() && other.starts_with(one) && other[one.size()] == '.' &&
           one.find('.') == std::string_view::npos;
}

}  // namespace

std::variant<std::vector<std::string>, std::string> expand_host_list(std::string_view text) {
    if (text.size() > kMaxHostListText) return fmt::format("longer than {} bytes", kMaxHostListText);
    std::vector<std::string> hosts;
    for (;;) {
        skip_blanks(text);
        const std::string_view item = take_item(text);
        if (item.empty()) return "a name is missing at its beginning, its end or between two commas";
        if (const auto wrong = expand_item(item, hosts))
            return fmt::format("{}: {}", harmless_line(item, kMaxItemShown), *wrong);
        skip_blanks(text);
        if (text.empty()) return hosts;
        if (text.front() == ',') text.remove_prefix(1);
    }
}

std::optional<int> position_of(std::string_view host, const std::vector<std::string>& hosts) {
    const std::string own = lower_case(host);
    std::optional<int> found;
    std::string form;  // of the entry that was found
    for (std::size_t place = 0; place < hosts.size(); ++place) {
        const std::string name = lower_case(hosts[place]);
        if (name == own) return static_cast<int>(place);
        if (!is_short_form(own, name)) continue;
        if (found && name != form) form.clear();
        if (!found) form = name;
        found = found.value_or(static_cast<int>(place));
    }
    return form.empty() ? std::nullopt : found;
}

}  // namespace ddprun::inline launch
