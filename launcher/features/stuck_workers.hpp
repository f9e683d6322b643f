// A worker in an uninterruptible wait of the kernel (state D: a file server that does not answer, a driver
// that hangs) looks alive, and nothing can be done about it. With
// TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=SECONDS one that has been in the same such wait for so long has
// failed, as with torchrun; the failure names the file system that it waits for, where that shows.
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

// A worker's main thread, as it was seen once.
struct WaitSight {
    pid_t pid = 0;
    char state = '?';
    std::uint64_t switches =
        0;  // between it and other threads, so far: it has left a wait since that number changed
};

class StuckWorkers {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    explicit StuckWorkers(std::chrono::milliseconds limit) : limit_(limit) {}

    // One that is stuck, by what was seen until now; those that are not among the sights are forgotten.
    std::optional<pid_t> see(const std::vector<WaitSight>& sights, TimePoint now);
    // Workers are looked at so often.
    std::chrono::milliseconds pause() const { return limit_ / 4; }

  private:
    struct Wait {
        std::uint64_t switches = 0;
        TimePoint since;
    };

    std::chrono::milliseconds limit_;
    std::map<pid_t, Wait> waits_;
};

// Nothing where the text is no number of seconds above 0.
std::optional<std::chrono::milliseconds> parse_stuck_limit(std::string_view text);

// Returns "/data (nfs4, server:/export)": the mount of /proc/<pid>/mountinfo that the path is on; empty if
// there is none.
std::string mount_of(std::string_view mountinfo, std::string_view path);
// The mount of the file that the process's system call is about; empty where that does not show.
std::string awaited_mount(pid_t process, const std::string& proc = "/proc");

// Returns nullptr without the variable.
std::unique_ptr<Feature> make_stuck_workers(FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
