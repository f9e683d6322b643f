// The watchdog ends processes of this node's workers whose own timers have expired, as PyTorch's agent does.
// It never ends this launcher. PyTorch's names:
//
//   TORCHELASTIC_ENABLE_FILE_TIMER=1   there is one
//   TORCHELASTIC_TIMER_FILE            its pipe; else a new name among the temporary files. Workers are told
//                                      the same
//
// Workers write their timers into the named pipe. The feature makes one for each round, reads what comes, and
// waits for the next timer. Only workers and what is below them are sent anything (owner_of); a timer of
// another process is refused when it is over. While the workers stand still (Ctrl-Z) their timers do, too,
// and once they are told to end no timer ends them.
//
// The parts below are pure, but for TimerPipe: times and processes are arguments, the lines are bytes from
// outside. A line is JSON, as PyTorch's FileTimerClient writes it. A timer is set for a time of the wall
// clock, and waited for by the steady one from then on: a clock that is put right ends nobody. A process is
// named by its pid and the time of its start, so that a pid which was given anew is nobody's. If timers of a
// process have expired they are over in their order, up to the first with a signal: that one is why the
// process is sent it, and all its timers are gone. If none has a signal, all that have expired are over.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/agent/feature.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// PIPE_BUF, which the client keeps to as well: what is longer does not reach a pipe as a whole.
inline constexpr std::size_t kMaxTimerLine = 4096;
inline constexpr int kTimerVersion = 1;

// A process has this timer; it is known by the process and the scope.
struct TimerRequest {
    pid_t pid = 0;
    std::string scope;    // as the worker calls it, any bytes
    double expires = -1;  // seconds since 1970; below 0: it is taken back
    int signal = 0;       // what the process gets if it expires; 0 or less: nothing

    bool is_release() const { return expires < 0; }
    bool operator==(const TimerRequest&) const = default;
};

// The request, or what is wrong with the line.
std::variant<TimerRequest, std::string> parse_timer_request(std::string_view line);

// It finds the lines in what a pipe brings, piece by piece. One over kMaxTimerLine is told by its beginning,
// once, and passed over up to its end; so no more than that is kept.
class TimerLines {
  public:
    // `take` is called with each line, without its newline.
    void push(std::string_view bytes, const std::function<void(std::string_view)>& take);

  private:
    std::string begun_;
    bool passes_over_ = false;
};

// One node has at most so many at the same time; a worker has a few.
inline constexpr std::size_t kMaxTimers = 4096;
// A timer that is set for longer is waited for this long.
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

    // Sets it, in the place of one of the same process and scope. False where there are kMaxTimers others.
    // `unix_s` is the wall clock's time now, as `now` is the steady one's.
    bool set(const TimerRequest& request, std::uint64_t start_time, TimePoint now, double unix_s);
    void release(pid_t pid, const std::string& scope) { timers_.erase({pid, scope}); }

    // When the next one is over.
    std::optional<TimePoint> next() const;
    // Returns those that are over, each process's together, and with them what they stand for is gone.
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

// The worker that this process is, or is below, or in whose process group it is if its own parents have
// ended. Nothing for what is none of theirs: the launcher itself and its helpers, and everybody else.
std::optional<pid_t> owner_of(pid_t pid, const std::vector<pid_t>& workers,
                              const std::vector<ProcessStat>& processes);

inline constexpr char kEnableTimersVariable[] = "TORCHELASTIC_ENABLE_FILE_TIMER";
inline constexpr char kTimerFileVariable[] = "TORCHELASTIC_TIMER_FILE";

bool wants_timers(const Environment& environment);

// The pipe is removed with its owner. One that an earlier launcher has left at that place is taken over. One
// that somebody reads is another launcher's, and stays: then this one takes a new name, too. Anything else
// stays as well, and is an error. If launchers begin at once, the one that has locked it (flock) has it.
class TimerPipe {
  public:
    // Makes it for this user alone. `chosen`: where; empty: a new one in `temporary`, the folder of temporary
    // files. Throws a system_error that names the path and, where that is the user's, the variable.
    TimerPipe(const std::string& chosen, const std::string& temporary);
    TimerPipe(const TimerPipe&) = delete;
    TimerPipe& operator=(const TimerPipe&) = delete;
    ~TimerPipe();

    const std::string& path() const { return path_; }
    // The chosen place is another launcher's, so this is a new one.
    bool is_elsewhere() const { return is_elsewhere_; }
    // Both ends in one, so that it is never at its end; does not block.
    int descriptor() const { return pipe_.get(); }

  private:
    // Does nothing if another launcher has it, or had it until now.
    void take(const std::string& path);

    std::string path_;
    OwnedDescriptor pipe_;
    bool is_elsewhere_ = false;
};

// Returns nullptr unless TORCHELASTIC_ENABLE_FILE_TIMER=1 (LaunchOptions::timer_place).
std::unique_ptr<Feature> make_watchdog(FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
