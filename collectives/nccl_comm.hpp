// NcclComm: one NCCL communicator of this rank, its lock, and its end.
//
// NCCL wants one thread at a time inside a communicator, and nobody inside while it is aborted. It may be
// inside for ever when a peer is lost; so the communicator is non-blocking, and aborting is done by a thread
// of its own that can be given up. Any thread; every member returns within its limit.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "collectives/cuda_driver.hpp"
#include "collectives/nccl_library.hpp"

namespace ddprun {

// How long NCCL may take to abort. Then this process counts as stuck: the communicator is over all the same,
// and it is left to the launcher to kill the process.
inline constexpr std::chrono::milliseconds kNcclAbortLimit{5000};

class NcclComm {
  public:
    NcclComm(std::shared_ptr<const NcclLibrary> library, std::shared_ptr<const CudaPrimaryContext> context);
    // Aborts, within kNcclAbortLimit, what has not ended before.
    ~NcclComm();
    NcclComm(const NcclComm&) = delete;
    NcclComm& operator=(const NcclComm&) = delete;

    const NcclLibrary& library() const noexcept { return *core_->library; }
    const CudaPrimaryContext& context() const noexcept { return *core_->context; }

    // Begins to make it; it is there when state() is success.
    NcclResult begin(const NcclUniqueId& id, int rank, int ranks);

    // Runs body(handle) when no other thread is inside NCCL. Nothing once the end has begun.
    template <class Body>
    std::optional<NcclResult> call(Body body) {
        const std::lock_guard lock(core_->mutex);
        if (core_->ending || core_->handle == nullptr) return std::nullopt;
        const CudaScope scope(context());
        return body(core_->handle);
    }

    // What NCCL says of the communicator: success, in_progress or an error. Nothing once the end has begun,
    // or if another thread is inside.
    std::optional<NcclResult> state();

    // Ends it at once, and the operations that still run. True if NCCL has done so, now or before; false if
    // it has not within kNcclAbortLimit.
    bool abort();
    // Ends it in order, together with the other ranks. False if that was not done by `limit`, or hopeless()
    // became true; it can be aborted then.
    bool finish(std::chrono::steady_clock::time_point limit, const std::function<bool()>& hopeless);

    // "unhandled cuda error (…)", with NCCL's own last words where it has some.
    std::string describe(NcclResult result);

  private:
    // Outlives this object if aborting hangs.
    struct Core {
        std::shared_ptr<const NcclLibrary> library;
        std::shared_ptr<const CudaPrimaryContext> context;
        std::mutex mutex;  // held inside NCCL
        NcclHandle handle = nullptr;
        std::atomic<bool> ending{false};
        std::atomic<bool> gone{false};
    };

    std::shared_ptr<Core> core_;
    std::mutex abort_mutex_;  // one thread aborts, the others wait for it
    bool abort_tried_ = false;
};

}  // namespace ddprun
