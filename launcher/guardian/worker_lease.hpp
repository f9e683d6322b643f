// WorkerLease: until when the workers of this node may run without a sign of their agent. Memory that the agent and
// its guardian share: the agent moves the end on, and the guardian, which looks only when the end has come, kills
// the workers if it is over. An agent that was stopped cannot do so itself, and the other nodes go on without it.
//
// Made by the agent before it forks the guardian; afterwards each uses its own object, on any one thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

namespace ddprun {

class WorkerLease {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // Where the system has no memory for it, there is never an end.
    WorkerLease();

    // Without an end the workers may run for ever.
    void set_end(std::optional<TimePoint> end) noexcept;
    std::optional<TimePoint> end() const noexcept;

  private:
    struct Shared;
    struct Unmap {
        void operator()(Shared* shared) const noexcept;
    };

    std::unique_ptr<Shared, Unmap> shared_;
};

}  // namespace ddprun
