#include "launcher/cluster/host_list.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "launcher/harmless_text.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/job/failure.hpp"
#include "rendezvous/text/number_text.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::string_view kListBlanks = " \t\r\n";
// A complaint shows no more of a list.
constexpr std::size_t kMaxItemShown = 80;

struct WideSpan {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
};

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

// Returns what is wrong, in words, as do those below.
std::optional<std::string> read_range(std::string_view text, HostNumbers& range) {
    const auto [low, high] = ends_of_range(text);
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

// Counts a part's hosts; many for what is more than kMaxListedHosts.
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

void skip_blanks(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(kListBlanks), text.size()));
}

std::string lower_case(std::string_view text) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return lower;
}

// Says of names in lower case whether one is the first label of the other.
bool is_short_form(std::string_view one, std::string_view other) {
    if (one.size() > other.size()) std::swap(one, other);
    return !one.empty() && one.size() < other.size() && other.starts_with(one) && other[one.size()] == '.' &&
           one.find('.') == std::string_view::npos;
}

// gpu07.example: what stands before its last number, and behind it.
struct NumberedName {
    std::string before;
    std::string digits;
    std::string after;
};

std::optional<NumberedName> split_number(const std::string& name) {
    // The domain's numbers are all the same.
    const auto domain = std::min(name.find('.'), name.size());
    const auto last = name.find_last_of("0123456789", domain == 0 ? 0 : domain - 1);
    if (last == std::string::npos) return std::nullopt;
    const auto other = name.find_last_not_of("0123456789", last);
    const auto first = other == std::string::npos ? 0 : other + 1;
    if (last + 1 - first > kMaxRangeDigits || name.find_first_of("[],") != std::string::npos)
        return std::nullopt;
    return NumberedName{name.substr(0, first), name.substr(first, last + 1 - first), name.substr(last + 1)};
}

constexpr std::size_t kMaxCountShown = 40;
// No node has as many.
constexpr int kMaxTasksOfNode = 1'000'000;

struct RepeatedCount {
    int tasks = 0;
    int nodes = 1;
};

// `4` or `4(x2)`.
std::optional<RepeatedCount> read_repeated_count(std::string_view text) {
    const auto bracket = text.find("(x");
    const auto tasks = whole_number<int>(text.substr(0, bracket), 0, kMaxTasksOfNode);
    if (!tasks) return std::nullopt;
    if (bracket == std::string_view::npos) return RepeatedCount{*tasks, 1};
    if (!text.ends_with(')')) return std::nullopt;
    const auto nodes = whole_number<int>(text.substr(bracket + 2, text.size() - bracket - 3), 1);
    if (!nodes) return std::nullopt;
    return RepeatedCount{*tasks, *nodes};
}

constexpr const char* kTopologyVariable = "SLURM_TOPOLOGY_ADDR";

}  // namespace

std::string_view next_list_item(std::string_view text, std::string_view separators) {
    bool in_bracket = false;
    const auto ends = [&in_bracket, separators](char c) {
        if (c == '[' || c == ']') in_bracket = c == '[';
        return !in_bracket && separators.find(c) != std::string_view::npos;
    };
    const auto end = std::find_if(text.begin(), text.end(), ends) - text.begin();
    return text.substr(0, static_cast<std::size_t>(end));
}

std::variant<std::vector<std::string>, std::string> expand_host_list(std::string_view text) {
    if (text.size() > kMaxHostListText) return fmt::format("longer than {} bytes", kMaxHostListText);
    std::vector<std::string> hosts;
    for (;;) {
        skip_blanks(text);
        const std::string_view item = next_list_item(text, ", \t\r\n");
        text.remove_prefix(item.size());
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

std::string compressed_hosts(const std::vector<std::string>& hosts) {
    struct Group {
        NumberedName name;
        std::map<std::size_t, std::vector<std::uint64_t>> numbers;  // by their width
        std::string alone;                                          // the name, where it has no number
    };
    std::vector<Group> groups;
    for (const std::string& host : hosts) {
        const auto numbered = split_number(host);
        const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
            return numbered ? group.alone.empty() && group.name.before == numbered->before &&
                                  group.name.after == numbered->after
                            : group.alone == host;
        });
        Group& group = found == groups.end() ? groups.emplace_back() : *found;
        if (!numbered) {
            group.alone = host;
        } else {
            group.name = *numbered;
            group.numbers[numbered->digits.size()].push_back(*whole_number<std::uint64_t>(numbered->digits));
        }
    }
    std::string text;
    for (const Group& group : groups) {
        if (!text.empty()) text += ",";
        if (!group.alone.empty()) {
            text += group.alone;
            continue;
        }
        std::string ranges;
        for (const auto& [width, numbers] : group.numbers) {
            for (const auto& [first, last] : spans_of<WideSpan>(numbers)) {
                ranges += fmt::format("{}{:0{}}", ranges.empty() ? "" : ",", first, width);
                if (last != first) ranges += fmt::format("-{:0{}}", last, width);
            }
        }
        const bool is_one = ranges.find_first_of(",-") == std::string::npos;
        text += group.name.before + (is_one ? ranges : "[" + ranges + "]") + group.name.after;
    }
    return text;
}

std::vector<std::string> node_labels(const std::vector<std::string>& hosts) {
    std::vector<std::string> labels = hosts;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
        if (hosts[rank].empty() || std::count(hosts.begin(), hosts.end(), hosts[rank]) > 1)
            labels[rank] = fmt::format("{}#{}", hosts[rank], rank);
    }
    return labels;
}

std::vector<std::string_view> words_between_blanks(std::string_view text) {
    std::vector<std::string_view> words;
    for (skip_blanks(text); !text.empty(); skip_blanks(text)) {
        words.push_back(text.substr(0, text.find_first_of(kListBlanks)));
        text.remove_prefix(words.back().size());
    }
    return words;
}

std::variant<std::vector<int>, std::string> expand_task_counts(std::string_view text) {
    std::vector<int> counts;
    for (const std::string_view part : split_at(text, ',')) {
        const auto read = read_repeated_count(part);
        if (!read)
            return fmt::format("'{}' is no number of tasks like 4 or 4(x2)",
                               harmless_line(part, kMaxCountShown));
        if (static_cast<std::size_t>(read->nodes) > kMaxListedHosts - counts.size())
            return fmt::format("more than {} nodes", kMaxListedHosts);
        counts.insert(counts.end(), static_cast<std::size_t>(read->nodes), read->tasks);
    }
    return counts;
}

RankOrder order_by_topology(const Environment& environment) {
    const std::string* path = find_variable(environment, kTopologyVariable);
    if (path != nullptr && !path->empty() && path->size() <= kMaxRankOrderText) return {*path, {}};
    return {{},
            fmt::format("--rank-order topology: {} is {}; this node's ranks come behind those of nodes "
                        "where it is known",
                        kTopologyVariable,
                        path == nullptr || path->empty() ? "not set here" : "too long to be an address")};
}

std::variant<RankOrder, std::string> order_by_file(std::string_view text, const std::string& host_name) {
    std::vector<std::string> hosts;
    int number = 0;
    for (std::string_view line : split_at(text, '\n')) {
        ++number;
        line = line.substr(0, line.find('#'));
        if (words_between_blanks(line).empty()) continue;
        auto expanded = expand_host_list(line);
        if (const auto* wrong = std::get_if<std::string>(&expanded))
            return fmt::format("line {}: {}", number, *wrong);
        auto& more = std::get<std::vector<std::string>>(expanded);
        if (hosts.size() + more.size() > kMaxListedHosts)
            return fmt::format("line {}: more than {} hosts", number, kMaxListedHosts);
        hosts.insert(hosts.end(), more.begin(), more.end());
    }
    if (hosts.empty()) return "names no host";
    if (const auto position = position_of(host_name, hosts)) return RankOrder{std::to_string(*position), {}};
    return RankOrder{{},
                     fmt::format("this host ({}) is not in it, or several of its names may be; its ranks "
                                 "come behind those of the hosts that are",
                                 host_name)};
}

}  // namespace launch
}  // namespace ddprun
