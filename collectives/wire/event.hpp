// Event: what one thread signals and another polls for.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun {
inline namespace detail {

class Event {
  public:
    // Throws boost::system::system_error.
    Event() : descriptor_([] { return ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }) {
        if (!descriptor_) fail_errno(errno, "cannot make an event descriptor");
    }

    // Returns a descriptor that is readable while the event is signalled.
    int descriptor() const noexcept { return descriptor_.get(); }
    void signal() const noexcept {
        const std::uint64_t one = 1;
        // The write fails only when the counter is full, and then the event is signalled already.
        [[maybe_unused]] const ssize_t written = ::write(descriptor_.get(), &one, sizeof(one));
    }

    void clear() const noexcept {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t taken = ::read(descriptor_.get(), &count, sizeof(count));
    }

    // Waits until the event is signalled, or `deadline`. May return early.
    void wait(std::optional<Deadline> deadline) const noexcept {
        pollfd polled{descriptor_.get(), POLLIN, 0};
        ::poll(&polled, 1, poll_timeout(deadline));
    }

  private:
    ProcessDescriptor descriptor_;
};

}  // namespace detail
}  // namespace ddprun
