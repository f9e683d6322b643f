// HostLease: until when the workers on the coordinator's own node may run without its word, as the
// coordinator says. Pure.
//
// Once the lease has ended the workers stand still, and are ended if the coordinator does not move it on. The
// coordinator does so when a quorum has said that the others did not go on meanwhile (heartbeat.hpp). A round
// that was to begin then does not. Created by RendezvousLink, used on its thread.
#pragma once

#include <chrono>

#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun {
inline namespace job {

class HostLease {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    static constexpr const char* kEnded =
        "it stood still as a round began (stopped, or its machine was frozen), and the others may go on "
        "without it";

    void learn(const RoundLease& next) { last_ = next; }

    // Returns whether the workers of this round may not be started.
    bool has_ended(int round, TimePoint now) const {
        return last_.end && last_.round == round && now >= last_.end->at;
    }

  private:
    RoundLease last_;
};

}  // namespace job
}  // namespace ddprun
