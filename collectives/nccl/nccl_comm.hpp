// NcclComm: one NCCL communicator of this rank, who is inside it, and its end.
//
// It is a blocking one, as those of most programs are. (With one that is not, NCCL from 2.27 on makes and
// joins a thread for every operation, and before 2.24 a send or receive of its own may be reported as
// launched before it is.) So each of NCCL's calls may wait for other ranks, for ever where one is lost:
//
//   making, leaving   are done by a thread of its own, which is left behind where it does not come back in
//                     time. Nobody else may touch the communicator then; the thread aborts it should it come
//                     back after all.
//   an operation      mostly only puts a kernel into the stream. The first ones connect the ranks, which may
//                     wait. NCCL wants nobody inside while it aborts, so an operation's call gets
//                     kNcclCallTimeout to come out; one that stays is waiting for a lost rank, and only the
//                     abort, which first tells all that wait inside, makes it come out: it is done all the
//                     same.
//
// Any thread; every member but call() returns within its timeout.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "collectives/nccl/cuda_driver.hpp"
#include "collectives/nccl/nccl_calls.hpp"
#include "collectives/wire/event.hpp"

namespace ddprun::inline detail {

// How long an abort waits for a thread that is inside NCCL.
inline constexpr std::chrono::milliseconds kNcclCallTimeout{500};
// How long NCCL may take to abort, with that. Then this process counts as stuck: the communicator is over all
// the same, and it is left to the launcher to kill the process.
inline constexpr std::chrono::milliseconds kNcclAbortTimeout{5000};

class NcclComm {
  public:
    NcclComm(std::shared_ptr<const NcclLibrary> library, std::shared_ptr<const CudaPrimaryContext> context);
    // Aborts, within kNcclAbortTimeout, what has not ended before.
    ~NcclComm();

    const NcclLibrary& library() const noexcept { return *core_->library; }
    const CudaPrimaryContext& context() const noexcept { return *core_->context; }

    // Begins to make it, together with the other ranks; `done` is signalled when made() has an answer. Once.
    // Throws std::system_error: there is no thread to be had.
    void begin(const NcclUniqueId& id, int rank, int ranks, std::shared_ptr<const Event> done);
    // Returns what NCCL says of the making; nothing while it goes on.
    std::optional<NcclResult> made() const;

    // Runs body(handle) when no other thread is inside NCCL. Nothing once the end has begun. What body()
    // returns means nothing if the communicator has been aborted meanwhile.
    template <class Body>
    std::optional<NcclResult> call(Body body) {
        const NcclHandle handle = core_->enter();
        if (handle == nullptr) return std::nullopt;
        const Visit visit(*core_);
        return body(handle);
    }

    // Returns what NCCL says of the communicator: success or an error. Nothing once the end has begun, or if another
    // thread is inside.
    std::optional<NcclResult> state();

    // Ends it at once, and the operations that still run. True if NCCL has done so, now or before; false if
    // it has not within kNcclAbortTimeout, or a thread that makes or leaves it has been left behind.
    bool abort();
    // Ends it in order, together with the other ranks. False if that was not done by the deadline, or it was
    // aborted meanwhile.
    bool finish(Deadline deadline);

    // "unhandled cuda error (…)", with NCCL's own last words where it has some.
    std::string describe(NcclResult result) const;

  private:
    // Knows who is inside NCCL with the communicator.
    enum class Inside {
        nobody,
        caller,  // for an operation, or to ask for its state
        helper,  // a thread that makes or leaves it
    };

    // Outlives this object where a thread has been left behind.
    struct Core {
        std::shared_ptr<const NcclLibrary> library;
        std::shared_ptr<const CudaPrimaryContext> context;
        std::mutex mutex;  // guards what follows; never held inside NCCL
        std::condition_variable changed;
        NcclHandle handle = nullptr;  // null before it is made, and when it is gone
        std::optional<NcclResult> made;
        Inside inside = Inside::nobody;
        bool closed = false;       // nobody enters any more
        bool left_behind = false;  // the helper is on its own
        bool ended = false;        // an abort has done what it could
        bool gone = false;         // NCCL has let go of it

        // When nobody else is inside; null once it is closed. Then leave().
        NcclHandle enter();
        void leave();
        // Bodies of threads.
        void make(const NcclUniqueId& id, int rank, int ranks);
        void finish();
        void abort();
        // The helper comes out, with what is to be aborted if nobody waits for it any more.
        void helper_is_out(std::unique_lock<std::mutex>& lock);
    };

    // Call it between enter() and leave().
    struct Visit {
        explicit Visit(Core& entered) : core(entered), scope(*entered.context) {}
        ~Visit() { core.leave(); }

        Core& core;
        const CudaScope scope;
    };

    std::shared_ptr<Core> core_;
    std::mutex abort_mutex_;  // one thread aborts, the others wait for it
};

}  // namespace ddprun::inline detail
