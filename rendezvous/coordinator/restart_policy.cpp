#include "rendezvous/coordinator/restart_policy.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddprun {
inline namespace job {
namespace {

bool contains(const std::vector<CodeRange>& ranges, int code) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const CodeRange& range) { return code >= range.first && code <= range.last; });
}

}  // namespace

void RestartPolicy::count_same(const RoundResult& result) {
    const bool again = !result.signature.empty() && result.signature == signature_ && !result.progressed;
    same_ = again ? same_ + 1 : 1;
    signature_ = result.signature;
}

// Says what another round cannot help; empty where it may.
std::string RestartPolicy::why_final(const Failure& failure) const {
    // The exit code alone could be the worker's own; one that never ran has no pid.
    if (failure.pid == 0 && (failure.exit_code == kExitNotExecutable || failure.exit_code == kExitNotFound))
        return "the program cannot be started";
    if (failure.pid == 0 && failure.exit_code == kExitUsage) return "the command line is wrong";
    if (failure.kind == Failure::Kind::hang) return options_.after_hang ? "" : "--hang-timeout says stop";
    if (contains(options_.no_restart_on, failure.exit_code))
        return fmt::format("exit code {} is among --no-restart-on", failure.exit_code);
    if (options_.restart_on && !contains(*options_.restart_on, failure.exit_code))
        return fmt::format("exit code {} is not among --restart-on", failure.exit_code);
    return {};
}

// Says what rounds before have shown; empty: nothing is against another one.
std::string RestartPolicy::why_repeated(const RoundResult& result) const {
    if (options_.same_failure > 0 && same_ >= options_.same_failure && !result.signature.empty())
        return fmt::format("the same failure {} times in a row (--same-failure {})", same_,
                           options_.same_failure);
    if (without_progress_ < kMaxRestartsWithoutProgress) return {};
    return fmt::format(
        "{} restarts in a row without progress ({})", kMaxRestartsWithoutProgress,
        options_.has_progress_file ? "--progress-file did not change" : "none lasted --min-uptime");
}

RestartPolicy::Decision RestartPolicy::decide(const RoundResult& result, double jitter) {
    const bool signalled = result.failure.kind == Failure::Kind::signalled;
    const bool is_wanted =
        result.answer == Judgement::Answer::restart || result.answer == Judgement::Answer::exclude;
    const auto refused = [](const std::string& why) { return Decision{.message = "no restart: " + why}; };
    count_same(result);
    if (signalled || result.cancelled) return {};
    if (options_.max_restarts == 0)
        return is_wanted ? refused("--on-failure wants one, but --max-restarts is 0") : Decision{};
    if (result.answer == Judgement::Answer::stop) return refused("--on-failure says stop");
    if (const std::string why = why_final(result.failure); !is_wanted && !why.empty()) return refused(why);
    if (restarts_ >= options_.max_restarts)
        return refused(fmt::format("all {} of --max-restarts are used up", options_.max_restarts));
    const bool progress =
        options_.has_progress_file ? result.progressed : result.uptime >= options_.min_uptime;
    if (progress) without_progress_ = 0;
    const std::string why = why_repeated(result);
    if (!is_wanted && !result.is_left_out && !why.empty()) return refused(why);
    using Pause = std::chrono::duration<double, std::milli>;
    const Pause doubled = Pause(options_.backoff_min) * std::exp2(std::min(without_progress_, 40));
    const Pause longest = std::min(doubled, Pause(std::max(options_.backoff_max, options_.backoff_min)));
    ++without_progress_;
    ++restarts_;
    const auto delay = std::llround(longest.count() * (0.5 + jitter / 2));
    return {.restart = true, .delay = std::chrono::milliseconds(delay)};
}

}  // namespace job
}  // namespace ddprun
