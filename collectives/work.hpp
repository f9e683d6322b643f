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

// A Work is what Communicator::async() returns. Copies stand for the same operation. Letting go of it stops
// nothing: the buffers must stay valid, and the output is not to be looked at, until the operation has ended.
// All members may be called from any thread, also after the communicator's end. In a forked child every Work
// of its parent's has ended with an invalid_argument.
class Work {
  public:
    // An operation that has ended well.
    Work() = default;
    explicit Work(std::shared_ptr<WorkState> state) noexcept : state_(std::move(state)) {}

    // Returns when the operation has ended, which this thread carries out itself where nobody has begun it:
    // sooner than by waiting for then()'s call. Throws the CollectiveError it ended with, every time. Not
    // without limit: each operation has the communicator's operation_timeout, counted from when its turn
    // comes.
    void wait() const;
    // The same for `timeout` at most; false if the operation has not ended then.
    bool wait_for(std::chrono::milliseconds timeout) const;
    // True when the operation has ended, well or not. Never blocks.
    bool test() const;
    // Calls done(how it ended) exactly once: at once if it has ended, else when it does, on a thread of the
    // library's that runs no operations, so that it may wait for others. It must not throw.
    void then(std::function<void(const Status&)> done) const;
    // The error the operation ended with; nothing while it goes on, and when it has ended well.
    std::optional<CollectiveError> error() const;
    // The rank that sent what a receive by tag has received, once it has ended well; else -1.
    int source() const;

  private:
    std::shared_ptr<WorkState> state_;
};

#pragma GCC visibility pop
}  // namespace ddprun
