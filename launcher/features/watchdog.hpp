// The watchdog (make_watchdog()) ends processes of this node's workers when timers that they have set expire,
// as PyTorch's agent does. The watchdog never ends this launcher. PyTorch's names:
//
//   TORCHELASTIC_ENABLE_FILE_TIMER=1   there is one
//   TORCHELASTIC_TIMER_FILE            its pipe; else a new name among the temporary files. Workers are told
//                                      the same
//
// Workers write their timers into the named pipe. The feature makes one pipe for each round, reads what
// comes, and waits for the next timer. Only workers and what is below them are sent anything (owner_of); a
// timer of another process is refused when it is over. While the workers stand still (Ctrl-Z) their timers
// do, too. Once workers are told to end no timer ends them.
//
// The parts below are pure, but for TimerPipe: times and processes are arguments, the lines are bytes from
// outside. A line is JSON, as PyTorch's FileTimerClient writes it. A timer is set for a time of the wall
// clock, and waited for by the steady one from then on: a clock that is put right ends no process. A process
// is named by its pid and the time of its start, since its pid may be given anew. Expired timers of a process
// are handled in their order, up to the first with a signal. The process is sent that signal, and all its
// timers are gone. If none has a signal, all that have expired are over.
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

struct WatchdogOptions {
    std::optional<std::string> place;  // of its pipe; empty: a new one; nothing: there is no watchdog
};

// kMaxTimerLine is PIPE_BUF, which the client keeps to as well: what is longer does not reach a pipe as a
// whole.
inline constexpr std::size_t kMaxTimerLine = 4096;
inline constexpr int kTimerVersion = 1;

// A TimerRequest sets or takes back a timer of a process; the timer is known by the process and the scope.
struct TimerRequest {
    pid_t pid = 0;
    std::string scope;    // as the worker calls it, any bytes
    double expires = -1;  // seconds since 1970; below 0: the timer is taken back
    int signal = 0;       // what the process gets if it expires; 0 or less: nothing

    bool is_release() const { return expires < 0; }
    bool operator==(const TimerRequest&) const = default;
};

// Returns the request, or what is wrong with the line.
std::variant<TimerRequest, std::string> parse_timer_request(std::string_view line);

// TimerLines finds the lines in what a pipe brings, piece by piece. A line over kMaxTimerLine is told by its
// beginning, once, and passed over up to its end, so that no more than that is kept.
class TimerLines {
  public:
    // Calls `take` with each line, without its newline.
    void push(std::string_view bytes, const std::function<void(std::string_view)>& take);

  private:
    std::string begun_;
    bool passes_over_ = false;
};

// kMaxTimers: how many timers one node has at most at the same time; a worker has a few.
inline constexpr std::size_t kMaxTimers = 4096;
// kLongestTimer: a timer that is set for longer is waited for this long.
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

    // Sets the timer, in the place of one of the same process and scope. Returns false where there are
    // kMaxTimers others. `unix_s` is the wall clock's time now, as `now` is the steady one's.
    bool set(const TimerRequest& request, std::uint64_t start_time, TimePoint now, double unix_s);
    void release(pid_t pid, const std::string& scope) { timers_.erase({pid, scope}); }

    // Returns when the next timer is over.
    std::optional<TimePoint> next() const;
    // Returns the timers that are over, each process's together, and removes them and what they stand for.
    std::vector<ExpiredTimer> take_expired(TimePoint now);

    // Takes back the timers of processes for which `is_gone` returns true.
    void forget(const std::function<bool(pid_t, std::uint64_t start_time)>& is_gone);
    // Moves all timers by `time`, for which they were held up.
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

// Returns "'train.py#12' of 30 s", in words fit to be shown.
std::string to_text(const ExpiredTimer& timer);

// Returns the worker that this process is, or is below. Else returns the worker that leads its process group,
// as its own parents may have ended. Nothing for all other processes, the launcher itself and its helpers
// among them.
std::optional<pid_t> owner_of(pid_t pid, const std::vector<pid_t>& workers,
                              const std::vector<ProcessStat>& processes);

inline constexpr char kEnableTimersVariable[] = "TORCHELASTIC_ENABLE_FILE_TIMER";
inline constexpr char kTimerFileVariable[] = "TORCHELASTIC_TIMER_FILE";

bool wants_timers(const Environment& environment);

// A TimerPipe is the named pipe for timers, removed with its owner. A pipe that an earlier launcher has left
// at that place is taken over. A pipe that has a reader is another launcher's, and stays: then this launcher
// takes a new name. Anything else stays as well, and is an error. If launchers begin at once, the one that
// has locked the pipe (flock) has it.
class TimerPipe {
  public:
    // Makes the pipe for this user alone. `chosen`: where; empty: a new one in `temporary`, the folder of
    // temporary files. Throws a system_error that names the path and, where that is the user's, the variable.
    TimerPipe(const std::string& chosen, const std::string& temporary);
    TimerPipe(const TimerPipe&) = delete;
    TimerPipe& operator=(const TimerPipe&) = delete;
    ~TimerPipe();

    const std::string& path() const { return path_; }
    // Returns true if the chosen place is another launcher's, so that this pipe is a new one.
    bool is_elsewhere() const { return is_elsewhere_; }
    // Returns both ends in one, so that the pipe is never at its end; does not block.
    int descriptor() const { return pipe_.get(); }

  private:
    // Takes the pipe at `path`. Does nothing if another launcher has it, or had it until now.
    void take(const std::string& path);

    std::string path_;
    OwnedDescriptor pipe_;
    bool is_elsewhere_ = false;
};

std::unique_ptr<Feature> make_watchdog(const FeatureInputs& inputs);

// Returns what make_watchdog() gives to workers; nothing where there is no watchdog.
std::optional<LateVariables> late_timer_variables(const LaunchOptions& options);

}  // namespace launch
}  // namespace ddprun
