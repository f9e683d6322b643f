// The watchdog ends processes of this node's workers whose own timers have expired, as PyTorch's agent does. It never ends
// this launcher. PyTorch's names:
//
//   TORCHELASTIC_ENABLE_FILE_TIMER=1   there is one
//   TORCHELASTIC_TIMER_FILE            its pipe; else a new name among the temporary files. Workers are told the same
//
// Workers write their timers into the named pipe (timer_table.hpp says how). FileWatchdog reads them when there are some, and
// waits for the next timer. Only workers and what is below them are sent anything (owner_of); a timer of another process is
// refused when it is over. The feature makes one for each round, and calls everything on the agent's thread, which is the
// executor's.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/feature.hpp"
#include "launcher/features/timer_table.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/system/alive.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

inline constexpr char kEnableTimersVariable[] = "TORCHELASTIC_ENABLE_FILE_TIMER";
inline constexpr char kTimerFileVariable[] = "TORCHELASTIC_TIMER_FILE";

bool wants_timers(const Environment& environment);

// The pipe is removed with its owner. One that an earlier launcher has left at that place is taken over. One that somebody
// reads is another launcher's, and stays: then this one takes a new name, too. Anything else stays as well, and is an error.
// If launchers begin at once, the one that has locked it (flock) has it.
class TimerPipe {
  public:
    // Makes it for this user alone. `chosen`: where; empty: a new one in `temporary`, the folder of temporary files. Throws a
    // system_error that names the path and, where that is the user's, the variable.
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

// So many of the pipe's bytes are taken in one turn: all that a pipe holds.
inline constexpr std::size_t kTimerBytesAtOnce = 64 * 1024;

// All are called from the executor.
struct WatchdogEvents {
    // The workers that have not ended.
    std::function<std::vector<pid_t>()> workers;
    // A process that is still there has this one no more; the worker that it is, or is below. Before a signal is sent.
    std::function<void(const ExpiredTimer&, std::optional<pid_t> worker)> on_expired;
    // One line of what is wrong; of lines that are passed over only the first is told of.
    std::function<void(const std::string&)> on_warning;
};

// Why a process of this worker was sent the timer's signal, in words that begin with "its".
std::string cause_text(const ExpiredTimer& timer, pid_t worker);

class FileWatchdog {
  public:
    FileWatchdog(const boost::asio::any_io_executor& executor, std::unique_ptr<TimerPipe> pipe,
                 WatchdogEvents events);
    FileWatchdog(const FileWatchdog&) = delete;
    FileWatchdog& operator=(const FileWatchdog&) = delete;

    const std::string& path() const { return pipe_->path(); }

    // Reads what workers say and ends who is over, from here on.
    void start();
    // The workers stand still, and their timers with them, until thaw().
    void freeze();
    void thaw();
    // The workers are told to end, for which they have their grace: no timer ends them from here on. What they say is still
    // taken.
    void rest();

    // The cause_text() of the first timer that has ended a process of this worker; empty if none has.
    std::string cause_of(pid_t worker) const;

  private:
    void await_requests();
    void read_requests();
    void take(std::string_view line);
    void set(const TimerRequest& request);
    void pass_over(const std::string& why);
    void arm();
    void look();
    void end(const ExpiredTimer& timer, const std::vector<ProcessStat>& processes);

    std::unique_ptr<TimerPipe> pipe_;
    WatchdogEvents events_;
    boost::asio::posix::stream_descriptor reader_;
    boost::asio::steady_timer timer_;
    TimerLines lines_;
    TimerTable table_;
    std::map<pid_t, std::string> causes_;  // by worker
    std::optional<TimerTable::TimePoint> frozen_;
    bool rests_ = false;
    bool has_passed_over_ = false;
    Alive alive_;
};

// nullptr unless TORCHELASTIC_ENABLE_FILE_TIMER=1 (LaunchOptions::timer_place).
std::unique_ptr<Feature> make_watchdog(FeatureInputs& inputs);

}  // namespace ddprun::inline launch
