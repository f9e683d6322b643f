// Work: an operation that was started and goes on beside its caller. Public; standard library only.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "collectives/error.hpp"
#include "collectives/status.hpp"

namespace ddprun {
inline namespace detail {
class WorkState;
}  // namespace detail
}  // namespace ddprun

namespace ddprun {

#pragma GCC visibility push(default)

// Work: what Communicator::async() returns. Copies stand for the same operation. Destroying a Work stops
// nothing: the buffers must stay valid, and the output is not to be looked at, until the operation has ended.
// All members may be called from any thread, also after the communicator's end. In a forked child every Work
// of the parent has ended with an invalid_argument.
class Work {
  public:
    // Makes a Work that has ended well.
    Work() = default;
    explicit Work(std::shared_ptr<WorkState> state) noexcept : state_(std::move(state)) {}

    // Returns when the operation has ended. A thread that waits carries the operation out itself where no
    // thread has begun it, which is sooner than a call by then(). Throws the CollectiveError that the
    // operation ended with, every time. The wait has a limit: each operation has the communicator's
    // operation_timeout, from its turn on.
    void wait() const;
    // Waits for `timeout` at most; returns false if the operation has not ended then. Throws as wait() does.
    bool wait_for(std::chrono::milliseconds timeout) const;
    // Returns true when the operation has ended, well or not. Never blocks.
    bool test() const;
    // Calls done(how it ended) exactly once. If the operation has ended, calls it at once; else when the
    // operation ends, on a thread of the library that runs no operations. done() may wait for other
    // operations, but must not throw.
    void then(std::function<void(const Status&)> done) const;
    // Returns the error that the operation ended with; nothing while it goes on, and when it has ended well.
    std::optional<CollectiveError> error() const;
    // Returns the rank that sent what a receive by tag has received, once that has ended well; else -1.
    int source() const;

  private:
    std::shared_ptr<WorkState> state_;
};

#pragma GCC visibility pop
}  // namespace ddprun
