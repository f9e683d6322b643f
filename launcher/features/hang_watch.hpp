// make_hang_watch() watches whether the job gets on (--hang-timeout), and says which ranks hold it where it
// does not.
//
// Every node measures its own ranks. Node 0 decides: when its own ranks have been quiet for too long it asks
// the other nodes how long theirs have, and if those have been, too, it looks at all ranks and judges. What
// is a sign of progress stands in launcher/verdict/progress_clock.hpp, what a look means in judge.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/feature.hpp"
#include "launcher/verdict/observation.hpp"
#include "launcher/verdict/verdict.hpp"

namespace ddprun {
inline namespace launch {

enum class HangAction {
    report,   // say so
    stop,     // end the job
    restart,  // another round follows, as after a failure
};

struct HangWatchOptions {
    std::optional<std::chrono::milliseconds> limit;  // how long the job may be quiet; nothing: no watch
    std::optional<std::chrono::milliseconds> start;  // until the first sign of progress, if it was given
    HangAction action = HangAction::report;
    std::string text;  // of the limit, as the user wrote it
};

// Returns the line for the user. Pure.
std::string hang_line(const HangWatchOptions& options, const HangVerdict& verdict,
                      std::chrono::milliseconds quiet);

// Returns the failure of a round that ends because of the hang: that of the first suspect, where there is
// one. Pure.
Failure hang_failure(const HangVerdict& verdict, const std::vector<Observation>& seen,
                     std::int64_t unix_time_ms);

// Returns nullptr where the launcher has nothing by which to look at ranks.
std::unique_ptr<Feature> make_hang_watch(const FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
