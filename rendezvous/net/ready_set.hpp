// ReadySet tells which of many sockets are ready, in batches.
//
// An epoll set of its own, nested in the executor's. Asio tells that something is ready; take() then says
// what, for all sockets in one system call. A busy server so reads each socket exactly once per request, and
// can answer a batch together, where Asio's own reads would first ask in vain. Level-triggered: what is left
// undone is reported again. Owned by one object and used on its thread.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <span>

namespace ddprun::inline base {

class ReadySet {
  public:
    explicit ReadySet(const boost::asio::any_io_executor& executor);

    // `events` are those of epoll; 0 keeps the socket in the set but asks for errors only. `id` comes back
    // with it.
    void add(int fd, std::uint64_t id, std::uint32_t events);
    void change(int fd, std::uint64_t id, std::uint32_t events);
    // It is called before the socket is closed: a forked child may hold it open for a moment, and with it the
    // registration.
    void remove(int fd);

    // Returns what is ready now, without waiting; valid until the next call.
    std::span<const epoll_event> take();

    // Calls the handler once when something is ready, or when cancelled.
    void async_wait(std::function<void()> handler);
    void cancel();

    bool empty() const { return size_ == 0; }

  private:
    int fd() { return descriptor_.native_handle(); }

    boost::asio::posix::stream_descriptor descriptor_;
    std::array<epoll_event, 256> events_;
    std::size_t size_ = 0;
};

}  // namespace ddprun::inline base
