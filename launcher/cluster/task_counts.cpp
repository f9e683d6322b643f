#include "launcher/cluster/task_counts.hpp"

#include <fmt/core.h>

#include <optional>

#include "launcher/cluster/host_list.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::size_t kMaxCountShown = 40;
// Of one node, far beyond any.
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

}  // namespace

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

}  // namespace ddprun::inline launch
