#include "launcher/features/time_limit.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/system_timer.hpp>
#include <utility>

#include "launcher/wall_clock.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace launch {
namespace {

Moment this_moment() { return {std::chrono::steady_clock::now(), unix_time_now_ms()}; }

// A scheduler may name any number; what is later than this the system's clock cannot hold.
constexpr std::int64_t kLatestUnixMs = 7'000'000'000'000;  // in the year 2191

}  // namespace

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

namespace {

// The steady clock and the wall clock are waited for at the same time: whichever limit comes first counts.
class JobTimeLimit final : public Feature {
  public:
    void began(AgentControls& agent) override {
        agent_ = &agent;
        steady_.emplace(agent.executor());
        wall_.emplace(agent.executor());
    }
    void learnt(const AgentNews& news) override {
        if (const auto* known = std::get_if<PlaceKnown>(&news)) watch(known->hosted);
        if (std::holds_alternative<TookOver>(news)) watch(true);
        if (const auto* change = std::get_if<StateChanged>(&news)) state_ = change->after;
    }
    void workers_run(const RoundReady& round) override {
        round_ = round.round;
        limit_.round_begins(this_moment());
        look();
    }
    void agent_leaves() override {
        steady_.reset();
        wall_.reset();
    }

  private:
    void watch(bool is_host) {
        const LaunchOptions& options = agent_->options();
        limit_ =
            TimeLimit(is_host ? options.features.of<TimeLimitOptions>() : TimeLimitOptions{}, options.start);
        arm();
    }

    void arm() {
        const TimeLimit::Wakeups wakeups = limit_.next();
        wake(*steady_, wakeups.steady);
        std::optional<std::chrono::system_clock::time_point> wall;
        if (limit_.needs_wall_clock() && wakeups.unix_ms)
            wall.emplace(milliseconds(std::clamp<std::int64_t>(*wakeups.unix_ms, 0, kLatestUnixMs)));
        wake(*wall_, wall);
    }

    template <typename Timer>
    void wake(Timer& timer, std::optional<typename Timer::time_point> when) {
        timer.cancel();
        if (!when) return;
        timer.expires_at(*when);
        timer.async_wait([this](const boost::system::error_code& cancelled) {
            if (!cancelled) look();
        });
    }

    void look() {
        const Moment moment = this_moment();
        const TimeLimit::Due due = limit_.take(moment);
        arm();
        if (due.end) return agent_->time_is_over(limit_.end_text());
        if (due.warning) warn(limit_.warn_signal(), limit_.warning_text(moment));
    }

    // The workers of all nodes get it by way of the coordinator; while it stops them it passes nothing on.
    void warn(int signal, const std::string& line) {
        if (state_ != AgentState::running && state_ != AgentState::draining) return;
        agent_->say(LogLevel::info, line);
        agent_->tell(TimeWarning{signal, line});
        agent_->send(NoticeSignal{round_, signal, agent_->options().requeue_signals.contains(signal)});
    }

    AgentControls* agent_ = nullptr;
    AgentState state_ = AgentState::joining;
    int round_ = 0;
    TimeLimit limit_{{}, {}};
    std::optional<boost::asio::steady_timer> steady_;
    // Asio looks at that clock every five minutes at least, in case it was set.
    std::optional<boost::asio::system_timer> wall_;
};

}  // namespace

std::unique_ptr<Feature> make_time_limit(const FeatureInputs&) { return std::make_unique<JobTimeLimit>(); }

}  // namespace launch
}  // namespace ddprun
