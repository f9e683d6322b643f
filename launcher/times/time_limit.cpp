#include "launcher/times/time_limit.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/job/exit_status.hpp"

namespace ddprun::inline launch {

using std::chrono::milliseconds;

TimeLimit::TimeLimit(TimeLimitOptions options, TimePoint start)
    : options_(std::move(options)), start_(start) {
    if (options_.limit) steady_ = Limit{options_.limit->count(), {}};
    if (options_.warn_before && options_.scheduler_end_unix_ms)
        wall_ = Limit{*options_.scheduler_end_unix_ms, {}};
}

void TimeLimit::round_begins(const Moment& now) {
    if (!options_.warn_before || ended_) return;
    plan_warning(steady_, since_start(now.steady));
    plan_warning(wall_, now.unix_ms);
}

TimeLimit::Wakeups TimeLimit::next() const {
    Wakeups wakeups;
    if (steady_ && !ended_) wakeups.steady = start_ + milliseconds(steady_->warn_at.value_or(steady_->end));
    if (wall_) wakeups.unix_ms = wall_->warn_at;
    return wakeups;
}

TimeLimit::Due TimeLimit::take(const Moment& now) {
    const std::int64_t elapsed = since_start(now.steady);
    const auto warns = [](const std::optional<Limit>& limit, std::int64_t time) {
        return limit && limit->warn_at && *limit->warn_at <= time;
    };
    Due due;
    due.end = !ended_ && steady_ && steady_->end <= elapsed;
    due.warning = !due.end && (warns(steady_, elapsed) || warns(wall_, now.unix_ms));
    ended_ = ended_ || due.end;
    if (!due.end && !due.warning) return due;
    for (auto* limit : {&steady_, &wall_}) {
        if (*limit) (*limit)->warn_at.reset();
    }
    return due;
}

std::string TimeLimit::warning_text(const Moment& now) const {
    std::optional<std::int64_t> left;
    if (steady_) left = steady_->end - since_start(now.steady);
    if (wall_) left = std::min(left.value_or(wall_->end - now.unix_ms), wall_->end - now.unix_ms);
    const std::int64_t seconds = (left.value_or(0) + 500) / 1000;
    return fmt::format("{} to all workers, {} (--warn-before {})", signal_text(options_.warn_signal),
                       seconds > 0 ? fmt::format("{} s before the limit", seconds) : "the limit is reached",
                       options_.warn_text);
}

std::string TimeLimit::end_text() const {
    return fmt::format("the time limit (--time-limit {}) has passed", options_.limit_text);
}

std::int64_t TimeLimit::since_start(TimePoint time) const {
    return std::chrono::duration_cast<milliseconds>(time - start_).count();
}

void TimeLimit::plan_warning(std::optional<Limit>& limit, std::int64_t now) const {
    if (!limit) return;
    const std::int64_t wanted = limit->end - options_.warn_before->count();
    limit->warn_at = wanted >= now ? wanted : now + std::max<std::int64_t>(0, limit->end - now) / 2;
}

}  // namespace ddprun::inline launch
