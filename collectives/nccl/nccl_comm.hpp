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

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "collectives/call/backend.hpp"
#include "collectives/nccl/cuda_driver.hpp"
#include "collectives/wire/event.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace detail {

// enqueue: from a task to NCCL's functions. Waits for nothing.

// NcclLibrary: NCCL's functions, found at run time. Immutable; any thread.
//
// Nothing of ddprun links with NCCL, so its programs start everywhere, and only a communicator that asks for
// the NCCL backend needs it.

// kMinNcclVersion: before 2.19, ncclCommAbort could hang when another thread was using the communicator (NCCL
// issue 1013). Before 2.24 a send or receive may be reported as launched before it is (NCCL issue 1495), but
// only of non-blocking communicators, which NcclComm does not make.
inline constexpr int kMinNcclVersion = 21900;

// Finds the libnccl.so.2 that a Python package has brought along (nvidia/nccl/lib in a folder of packages);
// empty: none. In this order: the folders of PYTHONPATH; those of the interpreter that is `program` (argv[0]
// of this process), of PYTHON_EXEC, of VIRTUAL_ENV, of CONDA_PREFIX, and of the first python3 on PATH; the
// user's own and the machine's. Of several versions of Python the newest. Runs no interpreter.
std::string packaged_nccl(const Environment& environment, const std::string& program);

struct NcclLibrary {
    // Opens `path`, or if it is empty the system's libnccl.so.2, or else the one of a Python package. Throws
    // CollectiveError with code `system` if there is none, it is too old, or it lacks a function.
    static std::shared_ptr<const NcclLibrary> open(const std::string& path);

    const SharedLibrary library;
    NcclResult (*get_version)(int*) = library.require("ncclGetVersion");
    const int version = checked_version();  // 22809 is 2.28.9

    NcclResult (*get_unique_id)(NcclUniqueId*) = library.require("ncclGetUniqueId");
    NcclResult (*init_rank_config)(NcclHandle*, int ranks, NcclUniqueId, int rank,
                                   NcclConfig*) = library.require("ncclCommInitRankConfig");
    NcclResult (*finalize)(NcclHandle) = library.require("ncclCommFinalize");
    NcclResult (*destroy)(NcclHandle) = library.require("ncclCommDestroy");
    NcclResult (*abort)(NcclHandle) = library.require("ncclCommAbort");
    NcclResult (*get_async_error)(NcclHandle, NcclResult*) = library.require("ncclCommGetAsyncError");
    const char* (*get_error_string)(NcclResult) = library.require("ncclGetErrorString");
    const char* (*get_last_error)(NcclHandle) = library.require("ncclGetLastError");
    NcclResult (*group_start)() = library.require("ncclGroupStart");
    NcclResult (*group_end)() = library.require("ncclGroupEnd");
    NcclResult (*create_premul_sum)(NcclOp*, void* scalar, NcclType, NcclScalarResidence,
                                    NcclHandle) = library.require("ncclRedOpCreatePreMulSum");
    NcclResult (*destroy_op)(NcclOp, NcclHandle) = library.require("ncclRedOpDestroy");
    NcclResult (*all_reduce)(const void*, void*, std::size_t, NcclType, NcclOp, NcclHandle,
                             CudaStream) = library.require("ncclAllReduce");
    NcclResult (*broadcast)(const void*, void*, std::size_t, NcclType, int root, NcclHandle,
                            CudaStream) = library.require("ncclBroadcast");
    NcclResult (*reduce)(const void*, void*, std::size_t, NcclType, NcclOp, int root, NcclHandle,
                         CudaStream) = library.require("ncclReduce");
    NcclResult (*all_gather)(const void*, void*, std::size_t, NcclType, NcclHandle,
                             CudaStream) = library.require("ncclAllGather");
    NcclResult (*reduce_scatter)(const void*, void*, std::size_t, NcclType, NcclOp, NcclHandle,
                                 CudaStream) = library.require("ncclReduceScatter");
    NcclResult (*send)(const void*, std::size_t, NcclType, int peer, NcclHandle,
                       CudaStream) = library.require("ncclSend");
    NcclResult (*recv)(void*, std::size_t, NcclType, int peer, NcclHandle,
                       CudaStream) = library.require("ncclRecv");
    // all_to_all, gather and scatter are there from 2.28 on; null before.
    NcclResult (*all_to_all)(const void*, void*, std::size_t, NcclType, NcclHandle,
                             CudaStream) = library.find("ncclAlltoAll");
    NcclResult (*gather)(const void*, void*, std::size_t, NcclType, int root, NcclHandle,
                         CudaStream) = library.find("ncclGather");
    NcclResult (*scatter)(const void*, void*, std::size_t, NcclType, int root, NcclHandle,
                          CudaStream) = library.find("ncclScatter");

  private:
    explicit NcclLibrary(SharedLibrary opened) : library(std::move(opened)) {}
    int checked_version() const;
};

// Returns the version as text: "2.28.9"; of versions up to 2.8, which counted otherwise, too.
std::string nccl_version_text(int version);

NcclType nccl_type(DataType type) noexcept;
// Returns nothing for what NCCL does not have: band, bor, bxor. premul_sum needs an operation of its own
// (create_premul_sum).
std::optional<NcclOp> nccl_op(ReduceOp op) noexcept;

// NcclScalar: a scalar as NCCL reads it: one element of the type.
struct NcclScalar {
    alignas(8) std::array<std::byte, 8> bytes{};
};
NcclScalar nccl_scalar(DataType type, double value) noexcept;

// NcclLaunch: the stream and the communicator that a task is enqueued for.
struct NcclLaunch {
    const NcclLibrary& nccl;
    NcclHandle handle;
    CudaStream stream;
    int rank;
    int ranks;
    NcclOp op = NcclOp::sum;
    // token: device memory of the communicator: an element for barriers and operations without elements.
    void* token = nullptr;
};

// Enqueues the task. For gather, scatter and all_to_all NCCL's own functions are used from 2.28 on, before
// that sends and receives.
NcclResult enqueue(const NcclLaunch& on, const Task& task);

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
