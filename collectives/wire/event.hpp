// Event: what one thread signals and another polls for.
#pragma once

#include <chrono>
#include <optional>

#include "rendezvous/system/own_process.hpp"

namespace ddprun {

class Event {
  public:
    // Throws boost::system::system_error.
    Event();

    // Readable while signalled.
    int descriptor() const noexcept { return descriptor_.get(); }
    void signal() const noexcept;
    void clear() const noexcept;
    // Until it is signalled, `limit` at most. May return early.
    void wait(std::optional<std::chrono::steady_clock::time_point> limit) const noexcept;

  private:
    ProcessDescriptor descriptor_;
};

}  // namespace ddprun
