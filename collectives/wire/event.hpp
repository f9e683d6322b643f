// Event: what one thread signals and another polls for.
#pragma once

#include <optional>

#include "rendezvous/system/deadline.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun::inline detail {

class Event {
  public:
    // Throws boost::system::system_error.
    Event();

    // Readable while signalled.
    int descriptor() const noexcept { return descriptor_.get(); }
    void signal() const noexcept;
    void clear() const noexcept;
    // Waits until it is signalled, or `deadline`. May return early.
    void wait(std::optional<Deadline> deadline) const noexcept;

  private:
    ProcessDescriptor descriptor_;
};

}  // namespace ddprun::inline detail
