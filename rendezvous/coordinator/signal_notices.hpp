// SignalNotices: signals for the workers, each counted once. What a scheduler sends to a whole job all of its agents get,
// and each of them tells the coordinator. Pure; the Coordinator feeds it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

namespace ddprun::inline job {

class SignalNotices {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // Signals to several agents within this time are one signal: as long as a scheduler may take to reach all nodes.
    static constexpr std::chrono::seconds kSameSignal{5};

    // True if the agent on this connection is the first one to tell of it. An agent that is sent a signal again tells of
    // another one; and each of these is told once.
    bool is_news(std::uint64_t connection, int signal, TimePoint now);

    void round_begins() { sent_.clear(); }

  private:
    struct Sent {
        TimePoint passed_on;
        int count = 0;  // passed on
        std::map<std::uint64_t, int>
            told;  // by whom, and how often; agents only, so at most one for each node
    };
    std::map<int, Sent> sent_;  // by the signal's number
};

}  // namespace ddprun::inline job
