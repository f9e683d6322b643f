// RaisedRanks: which workers of this round have printed what they raised, and when that began. The pump's
// thread fills it in while it reads; the agent looks at it when a worker has failed, without asking that
// thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "rendezvous/job/raised_words.hpp"

namespace ddprun {
inline namespace launch {

struct RaisedRank {
    int rank = 0;
    std::string text;  // see RaisedWords; empty: has not come yet
};

class RaisedRanks {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // Takes what a worker has raised, read at this time. Nothing changes where it is what was taken before.
    void take(int rank, const RaisedWords& words, TimePoint now);

    // Forgets all, since other workers follow.
    void clear();

    // Returns those that have begun at `from` or later, the first one first.
    std::vector<RaisedRank> since(TimePoint from) const;

  private:
    struct Raised {
        TimePoint begun;
        std::size_t count = 0;
        std::string text;
    };

    mutable std::mutex mutex_;
    std::map<int, Raised> ranks_;
};

}  // namespace launch
}  // namespace ddprun
