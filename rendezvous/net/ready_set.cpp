#include "rendezvous/net/ready_set.hpp"

#include <cerrno>
#include <utility>

#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace base {

namespace asio = boost::asio;

namespace {

int make_epoll() {
    int fd = ::epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) fail_errno(errno, "cannot make an epoll set for the store");
    return fd;
}

void control(int set, int operation, int fd, std::uint64_t id, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    if (::epoll_ctl(set, operation, fd, &event) != 0)
        fail_errno(errno, "cannot wait for a connection of the store");
}

}  // namespace

ReadySet::ReadySet(const boost::asio::any_io_executor& executor) : descriptor_(executor, make_epoll()) {}

void ReadySet::add(int fd, std::uint64_t id, std::uint32_t events) {
    control(this->fd(), EPOLL_CTL_ADD, fd, id, events);
    ++size_;
}

void ReadySet::change(int fd, std::uint64_t id, std::uint32_t events) {
    control(this->fd(), EPOLL_CTL_MOD, fd, id, events);
}

void ReadySet::remove(int fd) {
    control(this->fd(), EPOLL_CTL_DEL, fd, 0, 0);
    --size_;
}

std::span<const epoll_event> ReadySet::take() {
    int count = ::epoll_wait(fd(), events_.data(), static_cast<int>(events_.size()), 0);
    return {events_.data(), static_cast<std::size_t>(count > 0 ? count : 0)};
}

void ReadySet::async_wait(std::function<void()> handler) {
    descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [handler = std::move(handler)](boost::system::error_code) { handler(); });
}

void ReadySet::cancel() { descriptor_.cancel(); }

}  // namespace base
}  // namespace ddprun
