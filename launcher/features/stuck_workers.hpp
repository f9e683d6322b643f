// StuckWorkers finds workers in an uninterruptible wait of the kernel (state D: a file server that does not
// answer, a driver that hangs). A worker in such a wait looks alive, and nothing can be done about it.
// TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=SECONDS fails a worker that has been in one such wait for that
// long, as with torchrun. The failure names the file system that the worker waits for, where that shows.
//
// What is decided is pure: times and what /proc shows are arguments. Without the variable nothing looks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/feature.hpp"

namespace ddprun {
inline namespace launch {

inline constexpr const char* kStuckVariable = "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT";

// A WaitSight is a worker's main thread, as it was seen once.
struct WaitSight {
    pid_t pid = 0;
    char state = '?';
    std::uint64_t switches = 0;  // context switches so far; a new number says that the thread has left a wait
};

class StuckWorkers {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    explicit StuckWorkers(std::chrono::milliseconds limit) : limit_(limit) {}

    // Returns a worker that has been stuck up to these sights; forgets the workers that are not among them.
    std::optional<pid_t> see(const std::vector<WaitSight>& sights, TimePoint now);
    // Returns how often workers are looked at.
    std::chrono::milliseconds pause() const { return limit_ / 4; }

  private:
    struct Wait {
        std::uint64_t switches = 0;
        TimePoint since;
    };

    std::chrono::milliseconds limit_;
    std::map<pid_t, Wait> waits_;
};

// Reads the seconds of the variable; nothing for a text that is no number above 0.
std::optional<std::chrono::milliseconds> parse_stuck_limit(std::string_view text);

// Returns the mount of the file that the process's system call is about, as mount_of() has it; empty where
// that does not show.
std::string awaited_mount(pid_t process, const std::string& proc = "/proc");

// Returns nullptr if the variable is 0, or no number of seconds, for which it logs a warning.
std::unique_ptr<Feature> make_stuck_workers(const FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
