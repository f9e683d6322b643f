// EndObserver: another way by which ranks learn of an end, beside the ring (ShmLifeline). The functions of an
// EndObserver are called under the lifeline's lock: they must not block, nor call back.
#pragma once

#include <optional>

#include "collectives/call/call.hpp"

namespace ddprun {
inline namespace detail {

class EndObserver {
  public:
    // Called once when the communicator has ended, before this rank's own call can fail.
    virtual void ended(const Verdict& verdict) = 0;
    // Returns what the end of the connection to `peer` means, if the observer knows better than that the peer
    // died.
    virtual std::optional<Verdict> cause_of_loss(int peer) const = 0;

  protected:
    ~EndObserver() = default;
};

}  // namespace detail
}  // namespace ddprun
