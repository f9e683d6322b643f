// print_running_output: what the workers of a running job have printed, as their launcher keeps it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "launcher/jobs/job_folder.hpp"

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

// Prints the lines of this node's workers to stdout, each with its rank where there are several; if `follow`,
// goes on until the job has ended. Blocks. Throws Error where the launcher does not answer or stdout takes
// nothing, and UsageError for a rank that this node does not have.
void print_running_output(const Job& job, const LineFilter& filter, bool follow);

}  // namespace app
}  // namespace ddprun
