// WorkState: what a Work stands for. Each way of carrying out operations in the background has its own kind.
//
// A WorkState is shared by the thread that carries the operation out and those that wait; any thread. In a
// forked child only is_of_parent() may be called, and nothing is destroyed (make_in_process).
#pragma once

#include <functional>
#include <optional>

#include "collectives/error.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun {
inline namespace detail {

class WorkState {
  public:
    virtual ~WorkState() = default;

    bool is_of_parent() const noexcept { return process_ != this_process(); }
    // Returns true when the operation has ended, well or not.
    virtual bool ended() = 0;
    // Waits for the end, until `deadline` at most. Returns false if the operation has not ended then.
    virtual bool wait_until(Deadline deadline) = 0;
    // Calls done(), which keeps this object, once, after the end: at once if the operation has ended, else by
    // run_beside().
    virtual void then(std::function<void()> done) = 0;
    // Returns, after the end, what went wrong.
    virtual std::optional<CollectiveError> error() = 0;
    // See Work::source().
    virtual int source() { return -1; }

  private:
    const ProcessNumber process_ = this_process();
};

}  // namespace detail
}  // namespace ddprun
