// ChildEvents: tells whenever a child of this process may have ended, as an event (SIGCHLD through a
// descriptor).
//
// Blocks SIGCHLD in the thread that makes it, for good, and in the threads that this one starts later; so it
// is made before any other thread. One in a process: the signal is told once. Programs started by
// SessionLauncher do not inherit the mask.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>

#include "launcher/alive.hpp"

namespace ddprun::inline launch {

class ChildEvents {
  public:
    // `on_change` comes from the executor, once for any number of children. Throws system_error when there
    // are no descriptors left.
    ChildEvents(const boost::asio::any_io_executor& executor, std::function<void()> on_change);

  private:
    void wait();

    boost::asio::posix::stream_descriptor signals_;
    std::function<void()> on_change_;
    Alive alive_;
};

}  // namespace ddprun::inline launch
