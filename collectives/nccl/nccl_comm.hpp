// NcclComm: one NCCL communicator of this rank, the thread that is inside it, and its end.
//
// The communicator is a blocking one, as those of most programs are. (With others, NCCL from 2.27 on makes
// and joins a thread for every operation, and before 2.24 may report a send or receive of its own as launched
// before it is.) Each of NCCL's calls may therefore wait for other ranks, for ever where one is lost:
//
//   making, leaving   are done by a thread of their own, which is left behind where it does not come back in
//                     time. No other thread may touch the communicator then; the thread aborts it should it
//                     come back after all.
//   an operation      mostly only puts a kernel into the stream. The first ones connect the ranks, which may
//                     wait. NCCL wants no thread inside while it aborts, so an operation's call gets
//                     kNcclCallTimeout to come out. A call that stays is waiting for a lost rank. Only the
//                     abort, which first tells all that wait inside, makes it come out: it is done all the
//                     same.
//
// Any thread; every member but call() returns within its timeout.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "collectives/nccl/cuda_driver.hpp"
#include "collectives/nccl/nccl_library.hpp"
#include "collectives/wire/event.hpp"

namespace ddprun {
inline namespace detail {

// kNcclCallTimeout: how long an abort waits for a thread that is inside NCCL.
inline constexpr std::chrono::milliseconds kNcclCallTimeout{500};
// kNcclAbortTimeout: how long NCCL may take to abort, with kNcclCallTimeout. Then this process counts as
// stuck: the communicator is over all the same, and it is left to the launcher to kill the process.
inline constexpr std::chrono::milliseconds kNcclAbortTimeout{5000};

class NcclComm {
  public:
    NcclComm(std::shared_ptr<const NcclLibrary> library, std::shared_ptr<const CudaPrimaryContext> context);
    // Aborts, within kNcclAbortTimeout, what has not ended before.
    ~NcclComm();

    const NcclLibrary& library() const noexcept { return *core_->library; }
    const CudaPrimaryContext& context() const noexcept { return *core_->context; }

    // Begins to make the communicator, together with the other ranks; `done` is signalled when made() has an
    // answer. Once. Throws std::system_error: there is no thread to be had.
    void begin(const NcclUniqueId& id, int rank, int ranks, std::shared_ptr<const Event> done);
    // Returns what NCCL says of the making; nothing while it goes on.
    std::optional<NcclResult> made() const;

    // Runs body(handle) when no other thread is inside NCCL; the caller has a CudaScope, which may be for
    // more than one call. Nothing once the end has begun. What body() returns means nothing if the
    // communicator has been aborted meanwhile.
    template <class Body>
    std::optional<NcclResult> call(Body body) {
        return core_->visit(true, body);
    }

    // Returns what NCCL says of the communicator: success or an error. Nothing once the end has begun, or if
    // another thread is inside.
    std::optional<NcclResult> state();

    // Ends the communicator at once, and the operations that still run. True if NCCL has done so, now or
    // before; false if it has not within kNcclAbortTimeout, or a thread that makes or leaves the communicator
    // has been left behind.
    bool abort();
    // Ends the communicator in order, together with the other ranks. False if that was not done by the
    // deadline, or the communicator was aborted meanwhile.
    bool finish(Deadline deadline);

    // Returns "unhandled cuda error (…)", with NCCL's own last words where it has some.
    std::string describe(NcclResult result) const;

  private:
    // Inside: which thread is inside NCCL with the communicator.
    enum class Inside {
        nobody,
        caller,  // for an operation, or to ask for its state
        helper,  // a thread that makes or leaves it
    };

    // Core outlives the NcclComm where a thread has been left behind.
    struct Core {
        std::shared_ptr<const NcclLibrary> library;
        std::shared_ptr<const CudaPrimaryContext> context;
        std::atomic<NcclHandle> handle{nullptr};  // null before it is made, and when it is gone
        std::atomic<Inside> inside{Inside::nobody};
        std::atomic<bool> closed{false};   // a thread that enters leaves at once
        std::atomic<bool> awaited{false};  // a thread waits for none to be inside
        std::mutex mutex;                  // guards what follows; never held inside NCCL
        std::condition_variable changed;
        std::optional<NcclResult> made;
        bool left_behind = false;  // the helper is on its own
        bool ended = false;        // an abort has done what it could
        bool gone = false;         // NCCL has let go of it

        // Does what call() does; returns nothing while another thread is inside unless it `waits`. body()
        // throws nothing.
        template <class Body>
        std::optional<NcclResult> visit(bool waits, Body body) {
            if (!come_in(Inside::caller) && !(waits && await_entry())) return std::nullopt;
            const NcclHandle entered = closed ? nullptr : handle.load();
            const auto result = entered != nullptr ? std::optional(body(entered)) : std::nullopt;
            leave();
            return result;
        }
        // Returns false while another thread is inside; else leave() must follow.
        bool come_in(Inside who) {
            auto nobody = Inside::nobody;
            return inside.compare_exchange_strong(nobody, who);
        }
        // Waits until come_in() succeeds; false once the communicator is closed.
        bool await_entry();
        // Returns true if no thread is inside. Asked by a thread that waits for that: leave() tells it.
        bool is_free() { return (awaited = true) && inside == Inside::nobody; }
        void leave();
        // make(), finish() and abort() are bodies of threads.
        void make(const NcclUniqueId& id, int rank, int ranks);
        void finish();
        void abort();
        // Lets the helper out, and aborts the communicator if the helper has been left behind.
        void helper_is_out(std::unique_lock<std::mutex>& lock);
    };

    std::shared_ptr<Core> core_;
    std::mutex abort_mutex_;  // one thread aborts, the others wait for it
};

}  // namespace detail
}  // namespace ddprun
