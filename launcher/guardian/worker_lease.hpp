// WorkerLease: until when the workers of this node may run without a sign of their agent. Memory that the agent and
// its guardian share: the agent moves the end on, and the guardian, which looks only when the end has come, stops
// the workers if it is over (SIGSTOP). An agent that was stopped cannot do so itself, and the other nodes go on without
// it; perhaps all stood still, and the job goes on with it. So the guardian waits for its patience until the agent moves
// the end on, and then lets them go on; else it kills them. It counts that from when it has seen the end itself: it may
// have stood still, too.
//
// Made by the agent before it forks the guardian; afterwards each uses its own object, on any one thread.
#pragma once

#include <memory>
#include <optional>

#include "rendezvous/control/heartbeat.hpp"

namespace ddprun::inline launch {

class WorkerLease {
  public:
    // Where the system has no memory for it, there is never an end.
    WorkerLease();

    // Without an end the workers may run for ever.
    void set_end(const std::optional<LeaseEnd>& end) noexcept;
    std::optional<LeaseEnd> end() const noexcept;

  private:
    struct Shared;
    struct Unmap {
        void operator()(Shared* shared) const noexcept;
    };

    std::unique_ptr<Shared, Unmap> shared_;
};

}  // namespace ddprun::inline launch
