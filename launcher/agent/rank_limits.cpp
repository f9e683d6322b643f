#include "launcher/agent/rank_limits.hpp"

#include <fmt/core.h>

namespace ddprun::inline launch {
namespace {

using Complaint = std::optional<std::string>;

// Of a flag whose value names a rank too high, if it does.
struct Bounds {
    int count;
    std::string_view whose;
    std::string_view rank;

    Complaint refuse(std::string_view flag, const std::optional<std::string>& value) const {
        if (!value) return std::nullopt;
        return count == 1 ? fmt::format("{} {}: {} has 1 worker, {} 0", flag, *value, whose, rank)
                          : fmt::format("{} {}: {} has {} workers, {}s 0 to {}", flag, *value, whose, count,
                                        rank, count - 1);
    }

    // Shows as much of the value as is needed to find it again.
    Complaint refuse(std::string_view flag, const RankCommand& command, bool local) const {
        const auto range = command.local == local ? command.ranks.beyond(count) : std::nullopt;
        if (!range) return std::nullopt;
        return refuse(flag, fmt::format("'{}{}:{}'", local ? "local=" : "", *range, command.words.front()));
    }

    // Of the commands by local rank, or of the others.
    Complaint refuse(const LaunchOptions& options, bool local) const {
        for (const Wrap& wrap : options.wraps) {
            if (auto wrong = refuse("--wrap", wrap, local)) return wrong;
        }
        for (const RankPlan& one : options.programs) {
            if (auto wrong = refuse("--program", one.where, local)) return wrong;
        }
        return std::nullopt;
    }
};

}  // namespace

Complaint rank_beyond_job(const LaunchOptions& options, int world_size) {
    const Bounds job{world_size, "the job", "rank"};
    if (auto wrong = job.refuse("--show", options.output.ranks_shown.beyond(world_size))) return wrong;
    if (options.tty_rank && *options.tty_rank >= world_size)
        return job.refuse("--tty", std::to_string(*options.tty_rank));
    const auto& reader = options.standard_input.rank;
    if (reader && *reader > 0 && *reader >= world_size) return job.refuse("--stdin", std::to_string(*reader));
    return job.refuse(options, false);
}

Complaint local_rank_beyond_node(const LaunchOptions& options) {
    const OutputPlan& output = options.output;
    const Bounds node{static_cast<int>(options.workers.size()), "this node", "local rank"};
    if (auto wrong = node.refuse("--redirects", output.redirects.beyond(node.count))) return wrong;
    if (auto wrong = node.refuse("--tee", output.tee.beyond(node.count))) return wrong;
    if (auto wrong = node.refuse("--local-ranks-filter", output.local_ranks_shown.beyond(node.count)))
        return wrong;
    return node.refuse(options, true);
}

}  // namespace ddprun::inline launch
