#include "collectives/wire/event.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "rendezvous/system/error.hpp"

namespace ddprun::inline detail {

Event::Event() : descriptor_([] { return ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }) {
    if (!descriptor_) fail_errno(errno, "cannot make an event descriptor");
}

void Event::signal() const noexcept {
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then the event is signalled already.
    [[maybe_unused]] const ssize_t written = ::write(descriptor_.get(), &one, sizeof(one));
}

void Event::clear() const noexcept {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = ::read(descriptor_.get(), &count, sizeof(count));
}

void Event::wait(std::optional<Deadline> deadline) const noexcept {
    pollfd polled{descriptor_.get(), POLLIN, 0};
    ::poll(&polled, 1, poll_timeout(deadline));
}

}  // namespace ddprun::inline detail
