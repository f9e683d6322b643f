// TimerPipe: the named pipe through which workers reach the watchdog; removed with its owner. PyTorch's names:
//
//   TORCHELASTIC_ENABLE_FILE_TIMER=1   there is one
//   TORCHELASTIC_TIMER_FILE            where; else a new name among the temporary files. Workers are told the same
//
// A pipe that an earlier launcher has left at that place is taken over. One that somebody reads is another launcher's,
// and stays: then this one takes a new name, too. Anything else stays as well, and is an error. Of launchers that begin at
// once one has it: the one that has locked it (flock).
#pragma once

#include <string>

#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

inline constexpr char kEnableTimersVariable[] = "TORCHELASTIC_ENABLE_FILE_TIMER";
inline constexpr char kTimerFileVariable[] = "TORCHELASTIC_TIMER_FILE";

bool wants_timers(const Environment& environment);

class TimerPipe {
  public:
    // For this user alone. `chosen`: where; empty: a new one in `temporary`, the folder of temporary files. Throws a
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
    // Without a word where another launcher has it, or had it until now.
    void take(const std::string& path);

    std::string path_;
    OwnedDescriptor pipe_;
    bool is_elsewhere_ = false;
};

}  // namespace ddprun::inline launch
