// SoloBackend: the operations of a communicator of one rank, which are copies. Needs no store, no sockets, no
// thread.
#pragma once

#include <mutex>
#include <optional>

#include "collectives/call/backend.hpp"
#include "collectives/call/verdict.hpp"

namespace ddprun::inline detail {

class SoloBackend final : public Backend {
  public:
    // There is no peer: Communicator refuses send and recv before they come here.
    void run(const Task& task) override;
    std::vector<int> leave(Deadline deadline) override;
    void abort(const std::string& reason) override;
    std::optional<Verdict> verdict() const override;

  private:
    std::uint64_t sequence_ = 0;
    mutable std::mutex mutex_;  // guards the verdict: abort() comes from any thread
    std::optional<Verdict> verdict_;
};

}  // namespace ddprun::inline detail
