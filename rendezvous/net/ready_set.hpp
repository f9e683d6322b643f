// ReadySet tells which of many sockets are ready, in batches.
//
// A ReadySet is an epoll set, nested in the executor's: Asio tells that a socket is ready, and take() says
// which, for all sockets in one system call. A busy server thus reads each socket once per request, and can
// answer a batch together, where Asio's own reads would first try in vain. Level-triggered: what is left
// undone is reported again. Owned by one object and used on its thread.
#pragma once

#include <sys/epoll.h>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <span>

namespace ddprun {
inline namespace base {

class ReadySet {
  public:
    explicit ReadySet(const boost::asio::any_io_executor& executor);

    // Adds a socket. `events` are epoll's; with 0 only errors are reported. take() returns `id` with each
    // event.
    void add(int fd, std::uint64_t id, std::uint32_t events);
    void change(int fd, std::uint64_t id, std::uint32_t events);
    // Removes a socket, before it is closed: a forked child may hold the socket, and with it the
    // registration, open for a moment.
    void remove(int fd);

    // Returns what is ready now, without waiting; valid until the next call.
    std::span<const epoll_event> take();

    // Calls the handler once, when a socket is ready or the wait is cancelled.
    void async_wait(std::function<void()> handler);
    void cancel();

    bool empty() const { return size_ == 0; }

  private:
    int fd() { return descriptor_.native_handle(); }

    boost::asio::posix::stream_descriptor descriptor_;
    std::array<epoll_event, 256> events_;
    std::size_t size_ = 0;
};

}  // namespace base
}  // namespace ddprun
