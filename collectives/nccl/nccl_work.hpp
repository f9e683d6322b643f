// NcclWork: an operation on its way through a stream, from its call to its end.
//
// Shared by the thread that launches it, NcclWatch, and the threads that wait for it; any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/call/backend.hpp"
#include "collectives/nccl/cuda_driver.hpp"

namespace ddprun::inline detail {

// Events without times, used again and again: making one takes longer than a small operation.
class CudaEventPool {
  public:
    explicit CudaEventPool(std::shared_ptr<const CudaPrimaryContext> context)
        : context_(std::move(context)) {}
    ~CudaEventPool();

    const CudaPrimaryContext& context() const noexcept { return *context_; }
    // Throws CollectiveError, code `system`.
    CudaEvent take();
    void give(CudaEvent event);

  private:
    std::shared_ptr<const CudaPrimaryContext> context_;
    std::mutex mutex_;
    std::vector<CudaEvent> events_;
};

class NcclWork final : public WorkState {
  public:
    // `over`: the communicator has ended. From then on an event proves nothing: aborted kernels end, too.
    NcclWork(std::shared_ptr<CudaEventPool> events, std::shared_ptr<const std::atomic<bool>> over,
             const Task& task, Deadline started, Deadline deadline);
    ~NcclWork() override;

    const Call& call() const noexcept { return call_; }
    // The ranks with which send, recv and groups exchange messages.
    const std::vector<int>& peers() const noexcept { return peers_; }
    Deadline started() const noexcept { return started_; }
    Deadline deadline() const noexcept { return deadline_; }

    // The operation and then this event are in the stream. By the launching thread, once.
    void launched(CudaEvent event);
    // Whatever comes into `stream` from now on waits for this operation, if it has been launched.
    void hold_back(CudaStream stream);
    // It has failed; once it has ended, nothing changes any more.
    void fail(CollectiveError error);

    bool ended() override;
    bool wait_until(Deadline deadline) override;
    std::optional<CollectiveError> error() override;

    // Another result of the event than success and not_ready.
    std::optional<CudaResult> event_error() const noexcept;

  private:
    enum class State { launching, running, done, failed };

    std::shared_ptr<CudaEventPool> events_;
    std::shared_ptr<const std::atomic<bool>> over_;
    const Call call_;
    const std::vector<int> peers_;
    const Deadline started_;
    const Deadline deadline_;
    std::atomic<State> state_{State::launching};
    std::atomic<CudaEvent> event_{nullptr};
    std::atomic<CudaResult> event_result_{CudaResult::not_ready};
    std::mutex mutex_;  // guards the change to failed
    std::optional<CollectiveError> error_;
};

}  // namespace ddprun::inline detail
