#include "collectives/wire/event.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>

#include "rendezvous/system/error.hpp"

namespace ddprun {

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

void Event::wait(std::optional<std::chrono::steady_clock::time_point> limit) const noexcept {
    pollfd polled{descriptor_.get(), POLLIN, 0};
    int rest = -1;
    if (limit) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(*limit - std::chrono::steady_clock::now());
        rest = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
    }
    ::poll(&polled, 1, rest);
}

}  // namespace ddprun
