#include "launcher/start/start_console.hpp"

#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {
namespace {

bool are_one_console(int a, int b) {
    struct stat first {};
    struct stat second {};
    return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino && first.st_rdev == second.st_rdev;
}

}  // namespace

StartConsole::StartConsole(const boost::asio::any_io_executor& executor, std::function<void()> on_room)
    : on_room_(std::move(on_room)) {
    screens_.emplace_back(executor, STDOUT_FILENO);
    if (!are_one_console(STDOUT_FILENO, STDERR_FILENO)) screens_.emplace_back(executor, STDERR_FILENO);
}

void StartConsole::write(bool is_error, std::string_view text) {
    Screen& screen = is_error ? screens_.back() : screens_.front();
    screen.writer.write(text);
    await_room(screen);
}

// Asio would make the console non-blocking, also for the others who have it; by an epoll set of its own it stays as it is.
void StartConsole::await_room(Screen& screen) {
    if (!screen.writer.blocked() || screen.is_awaited) return;
    if (!screen.room.is_open()) {
        OwnedDescriptor set(::epoll_create1(EPOLL_CLOEXEC));
        epoll_event event{EPOLLOUT, {}};
        // What cannot be waited for is always ready.
        if (::epoll_ctl(set.get(), EPOLL_CTL_ADD, screen.writer.poll_fd(), &event) != 0)
            return screen.writer.flush();
        screen.room.assign(set.release());
    }
    screen.is_awaited = true;
    screen.room.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [this, &screen](const boost::system::error_code& error) {
                               screen.is_awaited = false;
                               if (error) return;
                               screen.writer.flush();
                               await_room(screen);
                               on_room_();
                           });
}

bool StartConsole::is_full() const {
    return std::any_of(screens_.begin(), screens_.end(), [](const Screen& screen) {
        return screen.writer.blocked() && screen.writer.waiting() > kMaxWaiting;
    });
}

bool StartConsole::is_empty() const {
    return std::none_of(screens_.begin(), screens_.end(),
                        [](const Screen& screen) { return screen.writer.blocked(); });
}

void StartConsole::give_up() {
    for (Screen& screen : screens_) screen.writer.give_up();
}

std::uint64_t StartConsole::written() const {
    std::uint64_t sum = 0;
    for (const Screen& screen : screens_) sum += screen.writer.written();
    return sum;
}

}  // namespace ddprun::inline launch
