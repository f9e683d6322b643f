// follow_running(): what happens on the nodes of a running job, as their launchers keep it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "launcher/jobs/job_folder.hpp"
#include "launcher/view/routes.hpp"

namespace ddprun {
inline namespace app {

// LineFilter: which lines are printed.
struct LineFilter {
    std::optional<int> rank;
    std::string text;                              // a line must have it; empty: any
    std::optional<std::chrono::milliseconds> age;  // printed at most so long ago
    std::optional<std::uint64_t> last;             // of these so many, and what comes later

    bool is_set() const { return rank || !text.empty() || age; }
};

// RunningEnd: how what a launcher tells came to its end.
struct RunningEnd {
    std::optional<int> exit_code;  // the job's; nothing: the launcher did not say
    bool is_whole = false;         // all that was asked for has been told
    bool is_interrupted = false;
};

// Hands over what the launcher of this node tells, line by line; says on stderr which node tells nothing and
// why, and what is in files. Ends with the stream or when `interrupt` can be read. Blocks. Throws Error where
// the launcher does not answer, and UsageError for what it refuses.
RunningEnd follow_running(const Job& job, const StreamTerms& terms, int interrupt,
                          const std::function<void(const StreamLine&)>& take);

// Prints the lines of the workers of all nodes to stdout, each with its rank where there are several; if
// `follow`, goes on until the job has ended. Otherwise as follow_running().
RunningEnd print_running_output(const Job& job, const LineFilter& filter, bool follow, int interrupt = -1);

}  // namespace app
}  // namespace ddprun
