// HostLease: until when the workers on the coordinator's own node may run without its word, as the coordinator says. Pure.
//
// A lease that has ended stays so for its round, whatever is said later: the machine stood still, the guardian ends the
// workers, and the others may have begun another round. Created by RendezvousLink, used on its thread.
#pragma once

#include <chrono>
#include <optional>

#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun {

class HostLease {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    static constexpr const char* kEnded =
        "it stood still as a round began (stopped, or its machine was frozen), and the others may go on "
        "without it";

    // False if it comes too late to count.
    bool learn(const RoundLease& next, TimePoint now) {
        if (has_ended(next.round, now)) return false;
        last_ = next;
        return true;
    }

    // The workers of this round may neither run nor be started.
    bool has_ended(int round, TimePoint now) const {
        return last_.end && last_.round == round && now >= *last_.end;
    }

    std::optional<TimePoint> end() const { return last_.end; }

  private:
    RoundLease last_;
};

}  // namespace ddprun
