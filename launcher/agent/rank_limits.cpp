#include "launcher/agent/rank_limits.hpp"

namespace ddprun {
namespace {

std::string beyond(std::string_view flag, const std::string& value, int count, std::string_view whose,
                   std::string_view ranks) {
    return std::string(flag) + " " + value + ": " + std::string(whose) + " has " + std::to_string(count) +
           " " +
           (count == 1 ? "worker, " + std::string(ranks) + " 0"
                       : "workers, " + std::string(ranks) + "s 0 to " + std::to_string(count - 1));
}

// What --wrap was given, as far as it is needed to find it again.
std::string wrap_text(const Wrap& wrap, const std::string& ranks) {
    return "'" + std::string(wrap.local ? "local=" : "") + ranks + ":" + wrap.words.front() + "'";
}

}  // namespace

std::string rank_beyond_job(const LaunchOptions& options, int world_size) {
    const auto refuse = [&](std::string_view flag, const std::string& value) {
        return beyond(flag, value, world_size, "the job", "rank");
    };
    if (const auto range = options.output.ranks_shown.beyond(world_size)) return refuse("--show", *range);
    if (options.tty_rank && *options.tty_rank >= world_size)
        return refuse("--tty", std::to_string(*options.tty_rank));
    for (const Wrap& wrap : options.wraps) {
        const auto range = wrap.local ? std::nullopt : wrap.ranks.beyond(world_size);
        if (range) return refuse("--wrap", wrap_text(wrap, *range));
    }
    return {};
}

std::string local_rank_beyond_node(const LaunchOptions& options) {
    const int count = static_cast<int>(options.workers.size());
    const auto refuse = [&](std::string_view flag, const std::string& value) {
        return beyond(flag, value, count, "this node", "local rank");
    };
    const OutputPlan& output = options.output;
    if (const auto choice = output.redirects.beyond(count)) return refuse("--redirects", *choice);
    if (const auto choice = output.tee.beyond(count)) return refuse("--tee", *choice);
    if (const auto range = output.local_ranks_shown.beyond(count))
        return refuse("--local-ranks-filter", *range);
    for (const Wrap& wrap : options.wraps) {
        const auto range = wrap.local ? wrap.ranks.beyond(count) : std::nullopt;
        if (range) return refuse("--wrap", wrap_text(wrap, *range));
    }
    return {};
}

}  // namespace ddprun
