#include "launcher/times/wall_timer.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rendezvous/system/check.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline launch {
namespace {

int wall_clock_descriptor() {
    const int fd = ::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0) fail_errno(errno, "cannot wait for a time of day (timerfd_create)");
    return fd;
}

}  // namespace

WallTimer::WallTimer(const boost::asio::any_io_executor& executor, std::function<void()> on_time)
    : timer_(executor, wall_clock_descriptor()), on_time_(std::move(on_time)) {
    wait();
}

void WallTimer::set(std::optional<std::int64_t> unix_ms) {
    itimerspec when{};  // all zeros: never
    if (unix_ms) {
        const std::int64_t time = std::max<std::int64_t>(*unix_ms, 1);
        when.it_value.tv_sec = time / 1000;
        when.it_value.tv_nsec = time % 1000 * 1'000'000;
    }
    // The kernel keeps an absolute time, so setting the clock moves nothing.
    check(::timerfd_settime(timer_.native_handle(), TFD_TIMER_ABSTIME, &when, nullptr) == 0,
          "timerfd_settime failed");
}

void WallTimer::wait() {
    timer_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                      alive_.guard([this](const boost::system::error_code& error) {
                          if (error) return;
                          std::uint64_t times = 0;
                          const bool is_time = ::read(timer_.native_handle(), &times, sizeof times) > 0;
                          wait();
                          if (is_time) on_time_();
                      }));
}

}  // namespace ddprun::inline launch
