// TimeLimit says when a job has to end (--time-limit), and when its workers are told so beforehand
// (--warn-before).
//
// There may be two limits: --time-limit, counted by the steady clock from the launcher's start, and the end
// that a scheduler has announced, a time of the wall clock. TimeLimit ends the job only at the first of them;
// at the other the scheduler ends it. The warning comes before whichever limit is the earlier, once in every
// round. Workers of a round that begins later than that may not be ready to handle a signal, which would end
// them. Late workers get the signal half-way between their start and the limit. The host's limit counts.
// TimeLimit decides and is pure; the feature waits, and tells the agent.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/feature.hpp"

namespace ddprun {
inline namespace launch {

// TimeLimitOptions: when the job has to end, and when its workers are told so.
struct TimeLimitOptions {
    std::optional<std::chrono::milliseconds> limit;  // of the job, from the launcher's start
    std::string limit_text;                          // as the user wrote it
    std::optional<std::chrono::milliseconds> warn_before;
    int warn_signal = SIGUSR1;
    std::string warn_text;
    std::optional<std::int64_t> scheduler_end_unix_ms;
};

// A Moment has the time by each of both clocks.
struct Moment {
    std::chrono::steady_clock::time_point steady;
    std::int64_t unix_ms = 0;
};

class TimeLimit {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    struct Due {
        bool warning = false;
        bool end = false;  // no warning follows
    };

    // Wakeups: when to look again, by the clock that gets there first.
    struct Wakeups {
        std::optional<TimePoint> steady;
        std::optional<std::int64_t> unix_ms;
    };

    TimeLimit(TimeLimitOptions options, TimePoint start);

    // Returns true if its wakeups may be times of the wall clock.
    bool needs_wall_clock() const { return wall_.has_value(); }

    // Notes that workers run: this round has a warning of its own.
    void round_begins(const Moment& now);

    Wakeups next() const;

    // Returns what is due by now, each once (the warning once in a round).
    Due take(const Moment& now);

    int warn_signal() const { return options_.warn_signal; }
    // Returns "SIGUSR1 to all workers, 120 s before the limit (--warn-before 120)".
    std::string warning_text(const Moment& now) const;
    // Returns "the time limit (--time-limit 2h) has passed".
    std::string end_text() const;

  private:
    // A Limit has its times in milliseconds of one clock.
    struct Limit {
        std::int64_t end = 0;
        std::optional<std::int64_t> warn_at;
    };

    std::int64_t since_start(TimePoint time) const;
    void plan_warning(std::optional<Limit>& limit, std::int64_t now) const;

    TimeLimitOptions options_;
    TimePoint start_;
    std::optional<Limit> steady_;  // since the start
    std::optional<Limit> wall_;    // since 1970
    bool ended_ = false;
};

std::unique_ptr<Feature> make_time_limit(const FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
