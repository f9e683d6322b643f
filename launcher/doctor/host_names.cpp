#include "launcher/doctor/host_names.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace ddprun::inline launch {
namespace {

// A number with more digits makes no range, as in expand_host_list.
constexpr std::size_t kMaxNumberDigits = 18;

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
    if (last + 1 - first > kMaxNumberDigits || name.find_first_of("[],") != std::string::npos)
        return std::nullopt;
    return NumberedName{name.substr(0, first), name.substr(first, last + 1 - first), name.substr(last + 1)};
}

// Numbers of the same width.
std::string ranges_text(const std::set<std::string>& numbers) {
    const auto value_of = [](const std::string& digits) {
        std::uint64_t value = 0;
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
        return value;
    };
    std::string text;
    for (auto first = numbers.begin(); first != numbers.end();) {
        auto last = first;
        auto next = std::next(first);
        while (next != numbers.end() && value_of(*next) == value_of(*last) + 1) last = next++;
        text += (text.empty() ? "" : ",") + *first;
        if (last != first) text += "-" + *last;
        first = next;
    }
    return text;
}

}  // namespace

std::string compressed_hosts(const std::vector<std::string>& hosts) {
    struct Group {
        NumberedName name;
        std::map<std::size_t, std::set<std::string>> numbers;  // by their width
        std::string alone;                                     // the name, where it has no number
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
            group.numbers[numbered->digits.size()].insert(numbered->digits);
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
        for (const auto& [width, numbers] : group.numbers)
            ranges += (ranges.empty() ? "" : ",") + ranges_text(numbers);
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

}  // namespace ddprun::inline launch
