// WorkState: what a Work stands for. Each way of carrying out operations in the background has its own kind.
//
// Shared by the thread that carries the operation out and those that wait; any thread. In a forked child nothing may be
// asked but whose it is, and nothing destroyed (make_in_process).
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "collectives/error.hpp"
#include "rendezvous/system/deadline.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun::inline detail {

class WorkState {
  public:
    virtual ~WorkState() = default;

    bool is_of_parent() const noexcept { return process_ != this_process(); }
    // True when the operation has ended, well or not.
    virtual bool ended() = 0;
    // Waits for that, until `deadline` at most. False if it has not.
    virtual bool wait_until(Deadline deadline) = 0;
    // After the end: what went wrong.
    virtual std::optional<CollectiveError> error() = 0;

  private:
    const ProcessNumber process_ = this_process();
};

// Of an operation that a thread of this process carries out.
class ThreadWorkState final : public WorkState {
  public:
    // By that thread, once.
    void end(std::optional<CollectiveError> error);

    bool ended() override;
    bool wait_until(Deadline deadline) override;
    std::optional<CollectiveError> error() override;

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false;
    std::optional<CollectiveError> error_;
};

}  // namespace ddprun::inline detail
