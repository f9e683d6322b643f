// NcclBackend: collectives of buffers in device memory through NCCL, one rank for each device.
//
// The TCP backend's mesh stays beneath: its lifeline finds the dead, carries verdicts and abort(), and
// split()'s exchange goes over it. NCCL itself compares no calls and notices no deaths; NcclWatch does. What
// NCCL does not have is refused (band, bor, bxor).
//
// Each operation takes its place in a stream, and an event after it; run() waits for the event, start()
// returns a Work that does. A stream that is captured into a CUDA graph is refused: the graph would run the
// operation again and again without any call of this rank, so that none of it could be counted, compared or
// given a deadline.
#pragma once

#include <memory>
#include <vector>

#include "collectives/call/backend.hpp"
#include "collectives/nccl/cuda_driver.hpp"
#include "collectives/nccl/nccl_calls.hpp"
#include "collectives/nccl/nccl_comm.hpp"
#include "collectives/nccl/nccl_peers.hpp"
#include "collectives/nccl/nccl_watch.hpp"
#include "collectives/nccl/nccl_work.hpp"

namespace ddprun::inline detail {

// How long the destructor, after the last operation has ended, waits for NCCL to end in order with the other
// ranks, before it aborts.
inline constexpr std::chrono::milliseconds kNcclFinishTimeout{5000};

class NcclBackend final : public Backend {
  public:
    // `comm` has been made by all ranks.
    NcclBackend(std::shared_ptr<const CudaPrimaryContext> context, std::shared_ptr<NcclComm> comm,
                std::unique_ptr<NcclPeers> peers);
    ~NcclBackend() override;

    bool on_device() const noexcept override { return true; }
    void run(const Task& task) override;
    std::shared_ptr<WorkState> start(const Task& task) override { return launch(task); }
    std::vector<int> leave(Deadline deadline) override;
    void abort(const std::string& reason) override;
    std::optional<Verdict> verdict() const override { return peers_->verdict(); }

  private:
    std::shared_ptr<NcclWork> launch(const Task& task);
    // Throws invalid_argument, before anything is counted: the stream takes no operation as it is.
    void refuse_capture(const Call& call, CudaStream stream) const;
    // Puts it into the stream; returns what NCCL says about it, or nothing if the communicator ended meanwhile.
    std::optional<NcclResult> enqueue_in(CudaStream stream, const Task& task);
    // An all_to_all in place has its input copied: NCCL has none.
    const void* copy_of_input(CudaStream stream, const Task& task);

    std::shared_ptr<const CudaPrimaryContext> context_;
    std::shared_ptr<NcclComm> comm_;
    std::shared_ptr<CudaEventPool> events_;
    std::unique_ptr<NcclPeers> peers_;
    CudaMemory token_;
    std::vector<CudaMemory> copies_;  // only the last is in use; freeing one would wait for the device
    std::shared_ptr<NcclWork> copy_user_;
    CudaStream stream_ = nullptr;
    NcclWatch watch_;
};

}  // namespace ddprun::inline detail
