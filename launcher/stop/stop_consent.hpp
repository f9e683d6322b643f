// StopConsent decides when a step of a stop that features hold is taken: once all that hold the step have
// gone on. How long they may hold the step at most is longest_hold(), and the StopGate asks them. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/job/failure.hpp"

namespace ddprun {
inline namespace launch {

// StopCause: why workers of this node are about to be told to end, as far as is known. Without a failure, a
// signal and a reason the job changes its size, or has no place for this node any more.
struct StopCause {
    int signal = 0;             // that the workers are about to be sent
    bool is_half_over = false;  // half of the grace period has passed since the first signal
    // failure: of a worker, a node or the coordinator, here or elsewhere; of kind signalled, the agent of
    // another node was sent a signal.
    std::optional<Failure> failure = {};
    int received = 0;         // the signal that this launcher was sent, or SIGTERM for `reason`; 0: none
    std::string reason = {};  // for which the launcher acts as if it had been sent a signal: the time is over
    std::chrono::milliseconds longest{0};  // how long the signal waits for features
};

// GoOn: what a feature calls once it no longer holds the signal; later calls, and those after the signal was
// sent or the agent has gone, do nothing.
using GoOn = std::function<void()>;

// kLongestHold: how long features may hold a signal, however long the grace period is: enough to look at
// every process of a node, and little beside the pause of a restart.
inline constexpr std::chrono::milliseconds kLongestHold{2000};

// Returns how long features may hold a signal when SIGKILL follows after `until_kill`; 0: not at all.
constexpr std::chrono::milliseconds longest_hold(std::chrono::milliseconds until_kill) {
    return std::clamp(until_kill / 2, std::chrono::milliseconds(0), kLongestHold);
}

class StopConsent {
  public:
    // Takes note that the feature of this number has gone on, perhaps before wait_for() names it; a second
    // time changes nothing.
    void go_on(int feature) { gone_on_.insert(feature); }

    // Tells that all features were asked, and which of them hold the step.
    void wait_for(std::set<int> features) { holding_ = std::move(features); }

    // Returns true if all features were asked, and all that hold the step have gone on.
    bool is_given() const {
        return holding_ &&
               std::includes(gone_on_.begin(), gone_on_.end(), holding_->begin(), holding_->end());
    }

  private:
    std::set<int> gone_on_;
    std::optional<std::set<int>> holding_;  // nothing: some are still to be asked
};

}  // namespace launch
}  // namespace ddprun
