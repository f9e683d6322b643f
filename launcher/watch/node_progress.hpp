// NodeProgress makes signs of progress of what is measured of this node's ranks, one time after the other.
// Pure.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <string_view>
#include <vector>

#include "launcher/verdict/observation.hpp"
#include "launcher/verdict/progress_clock.hpp"
#include "launcher/watch/rank_sampler.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace launch {

class NodeProgress {
  public:
    // kLeastTime: over which rates are measured: a keepalive each second is no traffic.
    static constexpr std::chrono::milliseconds kLeastTime{1'000};

    // Takes a sample; returns the signs since the last one that is kLeastTime older, if there is one, else
    // since the first. The first one has none.
    std::vector<ProgressSign> take(NodeSample sample, Deadline now);

    // Returns by rank what each has got on with by itself, in that time.
    const std::map<int, OwnProgress>& own() const { return own_; }

  private:
    struct Taken {
        Deadline when;
        NodeSample sample;
    };

    std::deque<Taken> samples_;  // the first one is compared with
    std::map<int, OwnProgress> own_;
};

// Returns how often the ranks are measured where they may be quiet for `limit`.
std::chrono::milliseconds sampling_pause(std::chrono::milliseconds limit);

// Returns the sign in words: "a wait that ended".
std::string_view words_of(ProgressSign sign);

}  // namespace launch
}  // namespace ddprun
