// TimerTable: the timers that workers have set, and which of them are over. Pure: time is an argument.
//
// A timer is set for a time of the wall clock, and waited for by the steady one from then on: a clock that is put right
// ends nobody. A process is named by its pid and the time of its start, so that a pid which was given anew is
// nobody's. What is over:
//   of one process the timers that have expired, in order, up to the first with a signal: that one is why it is sent it,
//   and all of its timers are gone; if none has a signal, those that have expired are
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/watchdog/timer_request.hpp"

namespace ddprun::inline launch {

// On one node at the same time; a worker has a few.
inline constexpr std::size_t kMaxTimers = 4096;
// What is set for longer is waited for this long.
inline constexpr std::chrono::hours kLongestTimer{24 * 365};

struct ExpiredTimer {
    pid_t pid = 0;
    std::uint64_t start_time = 0;  // of the process, as ProcessStat has it
    std::string scope;
    int signal = 0;
    std::chrono::milliseconds length{0};  // for which it was set

    bool operator==(const ExpiredTimer&) const = default;
};

class TimerTable {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // Sets it, in the place of one of the same process and scope. False where there are kMaxTimers others. `unix_s` is the
    // wall clock's time now, as `now` is the steady one's.
    bool set(const TimerRequest& request, std::uint64_t start_time, TimePoint now, double unix_s);
    void release(pid_t pid, const std::string& scope) { timers_.erase({pid, scope}); }

    // When the next one is over.
    std::optional<TimePoint> next() const;
    // Those that are over, each process's together, and with them what they stand for is gone.
    std::vector<ExpiredTimer> take_expired(TimePoint now);

    // Takes back those of processes of which this says that they are not there any more.
    void forget(const std::function<bool(pid_t, std::uint64_t start_time)>& is_gone);
    // All were held up for so long.
    void shift(std::chrono::steady_clock::duration time);

    std::size_t size() const { return timers_.size(); }

  private:
    struct Timer {
        std::uint64_t start_time = 0;
        TimePoint due;
        int signal = 0;
        std::chrono::milliseconds length{0};
    };

    std::map<std::pair<pid_t, std::string>, Timer> timers_;
};

// "'train.py#12' of 30 s", in words fit to be shown.
std::string to_text(const ExpiredTimer& timer);

}  // namespace ddprun::inline launch
