#include "collectives/nccl/nccl_backend.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/call/checked_task.hpp"
#include "collectives/call/task.hpp"
#include "collectives/call/work_state.hpp"
#include "collectives/nccl/nccl_launch.hpp"
#include "collectives/nccl/nccl_library.hpp"
#include "collectives/nccl/nccl_work.hpp"
#include "collectives/wire/event.hpp"
#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// How often NCCL and CUDA are asked for errors while operations are in progress.
constexpr std::chrono::milliseconds kNcclWatchPeriod{10};
// An operation that takes so long is compared with what the other ranks are in; then again after twice the
// time.
constexpr std::chrono::milliseconds kNcclCompareAfter{2000};
// The thread goes on looking for so long after the last operation, because being woken costs the caller more
// than a small operation.
constexpr std::chrono::milliseconds kStayAwake{1000};
// How long the destructor, after the last operation has ended, waits for NCCL to end in order with the other
// ranks, before it aborts.
constexpr std::chrono::milliseconds kNcclFinishTimeout{5000};
// Bytes; an element of every type fits.
constexpr std::size_t kToken = 64;

// NcclWatch: sees to it that no operation on NCCL waits for ever. One per communicator, with a thread of its
// own.
//
// The thread looks after all operations in progress: when the other ranks bring news, a deadline passes, or
// NCCL or CUDA report an error (which it has to ask for), the communicator ends: first all ranks are told,
// then NCCL is aborted, and then all operations fail with the verdict. While nothing is in progress, it
// sleeps.
//
// Members may be called from any thread, but for stop() and the destructor.
class NcclWatch {
  public:
    NcclWatch(std::shared_ptr<const CudaPrimaryContext> context, std::shared_ptr<NcclComm> comm,
              NcclPeers& peers)
        : home_(std::make_shared<NcclBatches>(std::move(context))), comm_(std::move(comm)), peers_(peers) {
        begin_batch();
        peers_.on_news([this] { wake_.signal(); });
        thread_ = start_without_signals([this] { run(); });
    }

    ~NcclWatch() { stop(); }

    // Makes a work of the operation that `task` asks for and that is counted as `call`, or has failed with
    // `error`, and looks after it. For the launching thread, before it calls NCCL; it has a CudaScope.
    std::shared_ptr<NcclWork> add(const Task& task, const Call& call, CudaStream stream,
                                  const CollectiveError* error = nullptr) {
        if (launching_->is_full()) begin_batch();
        NcclWork& work = launching_->begin_next(stream);
        work.begin(*home_, task, call, peers_.operation_timeout());
        if (error != nullptr) work.fail(*error);
        ++launching_->used;
        if (home_->over) {
            // The end has been looked for among the works before; this one would wait for ever.
            const std::lock_guard lock(mutex_);
            work.fail(error_of(verdict_, call));
        }
        if (asleep_ && asleep_.exchange(false)) wake_.signal();
        return {launching_, &work};
    }

    // NCCL refused, or failed in, a call; CUDA did, which `text` tells.
    void failed(NcclResult result) {
        const std::string text = comm_->describe(result);
        if (!may_be_a_death(result)) return failed(text);
        {
            const std::lock_guard lock(mutex_);
            if (unexplained_) return;
            unexplained_ = {text, Deadline::clock::now() + kNcclCauseTimeout};
        }
        wake_.signal();
    }

    void failed(const std::string& text) {
        peers_.declare({CollectiveErrorCode::system,
                        {peers_.rank()},
                        fmt::format("NCCL on rank {}: {}", peers_.rank(), text)});
        wake_.signal();
    }

    // Returns when nothing is in progress any more, by the operations' own deadlines at the latest; false if
    // that is later than `deadline`.
    bool drain(Deadline deadline) {
        while (const auto work = oldest()) {
            if (!work->wait_until(deadline)) return false;
        }
        return true;
    }

    // Ends the thread. NCCL is aborted unless it has ended before, and whatever is still in progress fails.
    // False if NCCL does not let itself be aborted.
    bool stop() {
        if (thread_.joinable()) {
            peers_.on_news({});
            stopping_ = true;
            wake_.signal();
            thread_.join();
        }
        if (!home_->over) {
            end({CollectiveErrorCode::aborted,
                 {peers_.rank()},
                 fmt::format("rank {} destroyed its communicator meanwhile", peers_.rank())});
        }
        return comm_->abort();
    }

    // An error of the communicator's end, with what else went wrong at it.
    CollectiveError completed(const CollectiveError& error) const {
        const std::lock_guard lock(mutex_);
        if (note_.empty()) return error;
        return {error.code(), error.what() + note_, error.culprits(), error.operation(), error.sequence()};
    }

  private:
    // An error of NCCL's that may be somebody's death, and until when the lifeline may tell.
    struct Unexplained {
        std::string text;
        Deadline deadline;
    };

    void run() {
        auto last_busy = Deadline::clock::now();
        while (true) {
            wake_.clear();
            if (stopping_) return;
            auto next = look();
            if (next) {
                last_busy = Deadline::clock::now();
            } else if (!home_->over && Deadline::clock::now() < last_busy + kStayAwake) {
                next = Deadline::clock::now() + kNcclWatchPeriod;
            } else {
                asleep_ = true;
                // One may have come before it could see that this thread sleeps.
                if (oldest() && asleep_.exchange(false)) continue;
            }
            wake_.wait(next);
        }
    }

    // Ends what has ended; judges the rest. When to look again; nothing if there is no need to.
    std::optional<Deadline> look() {
        if (home_->over) return std::nullopt;
        if (const auto verdict = peers_.verdict()) {
            end(*verdict);
            return std::nullopt;
        }
        const auto unexplained = judge_unexplained();
        const auto work = oldest();
        if (!work) return unexplained;
        judge(*work);
        // A deadline that has passed was judged, unless the mesh was in use: then again after a while.
        const auto now = Deadline::clock::now();
        auto next = now + kNcclWatchPeriod;
        if (work->deadline() > now) next = std::min(next, work->deadline());
        return unexplained ? std::min(next, *unexplained) : next;
    }

    std::shared_ptr<NcclWork> oldest() {
        const CudaScope scope(*home_->context);
        const std::lock_guard lock(mutex_);
        for (; !batches_.empty(); batches_.pop_front()) {
            const auto& batch = batches_.front();
            const bool full = batch->is_full();
            if (NcclWork* const work = batch->oldest()) return {batch, work};
            if (!full) break;
        }
        return nullptr;
    }

    // The launching thread, too, lets go of what has ended: so few works are in use, and their memory is
    // warm.
    void begin_batch() {
        const std::lock_guard lock(mutex_);
        while (!batches_.empty() && batches_.front()->has_ended()) batches_.pop_front();
        batches_.push_back(home_->take());
        launching_ = batches_.back();
    }

    // Why this rank ends the communicator, unless the others' news come before that moment.
    std::optional<Deadline> judge_unexplained() {
        std::string text;
        {
            const std::lock_guard lock(mutex_);
            if (!unexplained_) return std::nullopt;
            if (!has_passed(unexplained_->deadline)) return unexplained_->deadline;
            text = unexplained_->text;
        }
        failed(text);
        return Deadline::clock::now();
    }

    void judge(NcclWork& work) {
        const auto now = Deadline::clock::now();
        const Call& call = work.call();
        if (const auto state = comm_->state();
            state && *state != NcclResult::success && *state != NcclResult::in_progress) {
            return failed(*state);
        }
        if (const auto error = work.event_error()) {
            return failed("the stream's end: " + comm_->context().driver().text_of(*error));
        }
        if (now >= work.deadline()) {
            peers_.blame(call, work.peers(),
                         std::chrono::round<std::chrono::milliseconds>(work.deadline() - work.started()));
            return;
        }
        peers_.check_present(call, work.peers(), work.started());
        if (compared_ != call.sequence) {
            compared_ = call.sequence;
            compare_at_ = work.started() + kNcclCompareAfter;
        }
        if (now < compare_at_) return;
        if (peers_.check_agreement(call)) compare_at_ = now + (now - work.started());
    }

    void end(const Verdict& verdict) {
        {
            const std::lock_guard lock(mutex_);
            verdict_ = verdict;
            home_->over = true;
        }
        std::string note;
        if (!comm_->abort()) {
            note = fmt::format(
                "; besides, NCCL has not let itself be aborted within {} s: this process may not be able "
                "to end, and is left to the launcher to kill",
                kNcclAbortTimeout / std::chrono::seconds(1));
        }
        const std::lock_guard lock(mutex_);
        note_ = note;
        Verdict told = verdict;
        told.text += note;
        for (const auto& batch : batches_) {
            for (NcclWork& work : std::span(batch->works).first(batch->used))
                work.fail(error_of(told, work.call()));
        }
        batches_.clear();
    }

    const std::shared_ptr<NcclBatches> home_;
    std::shared_ptr<NcclComm> comm_;
    NcclPeers& peers_;
    Event wake_;
    std::atomic<bool> asleep_{false};
    std::atomic<bool> stopping_{false};
    // The thread's alone:
    std::uint64_t compared_ = 0;  // the call, and when it is compared again
    Deadline compare_at_{};
    std::shared_ptr<NcclBatch> launching_;  // the launching thread's
    mutable std::mutex mutex_;              // guards what follows; never held while the peers are asked
    std::deque<std::shared_ptr<NcclBatch>> batches_;
    std::optional<Unexplained> unexplained_;
    Verdict verdict_;
    std::string note_;
    std::thread thread_;
};

class NcclBackend final : public Backend {
  public:
    // `comm` has been made by all ranks.
    NcclBackend(std::shared_ptr<const CudaPrimaryContext> context, std::shared_ptr<NcclComm> comm,
                std::unique_ptr<NcclPeers> peers)
        : context_(std::move(context)),
          comm_(std::move(comm)),
          peers_(std::move(peers)),
          token_(context_, kToken),
          watch_(context_, comm_, *peers_) {
        context_->call("making a CUDA stream", &CudaDriver::stream_create, &stream_, kCudaStreamDefault);
    }

    ~NcclBackend() override {
        watch_.drain(Deadline::max());
        // The others need not wait for a rank that waits for them here.
        peers_->leave();
        if (!ended()) comm_->finish(Deadline::clock::now() + kNcclFinishTimeout);
        if (watch_.stop()) {
            const CudaScope scope(*context_);
            context_->driver().stream_destroy(stream_);
            return;
        }
        // Kernels may run for ever, and freeing would wait for them.
        token_.leak();
        for (CudaMemory& copy : copies_) copy.leak();
    }

    bool on_device() const noexcept override { return true; }
    void run(const Task& task) override {
        if (task.call.operation == Operation::split) {
            if (peers_->world_size() > 1) return peers_->exchange(task);
            std::memcpy(task.out, task.in, bytes_of(task));
            return;
        }
        const auto work = launch(task);
        work->wait_until(Deadline::max());
        if (const auto error = work->error()) throw *error;
    }

    std::shared_ptr<WorkState> start(const Task& task) override { return launch(task); }
    std::vector<int> leave(Deadline deadline) override {
        if (!watch_.drain(deadline)) {
            throw error_of(peers_->declare(abort_verdict(peers_->rank(), kStartedNotEnded)), "finalize");
        }
        return peers_->leave_together(deadline);
    }

    void abort(const std::string& reason) override { peers_->declare(abort_verdict(peers_->rank(), reason)); }
    std::optional<Verdict> verdict() const override { return peers_->verdict(); }
    void set_timeout(std::chrono::milliseconds timeout) override { peers_->set_operation_timeout(timeout); }

  private:
    std::shared_ptr<NcclWork> launch(const Task& task) {
        const Operation operation = task.call.operation;
        if (!nccl_op(task.call.reduce))
            refuse(operation, fmt::format("{} is not among NCCL's operations", name_of(task.call.reduce)));
        if (task.call.compression != Compression::none) refuse(operation, "NCCL does not compress");
        const auto stream = task.stream != nullptr ? static_cast<CudaStream>(task.stream) : stream_;
        // One for all that is asked of the driver here: each costs as much as the question itself.
        const CudaScope scope(*context_);
        // Nobody else has the communicator's own stream.
        if (stream != stream_) refuse_capture(task.call, stream);
        try {
            auto work = watch_.add(task, peers_->begin(task.call), stream);
            const bool in_place =
                operation == Operation::all_to_all && task.in == task.out && task.call.count > 0;
            const auto result = in_place ? enqueue_in(stream, with_copied_input(stream, task, work))
                                         : enqueue_in(stream, task);
            if (result == NcclResult::success) {
                work->launched(stream);
            } else if (result) {
                watch_.failed(*result);
            }
            return work;
        } catch (const CollectiveError& error) {
            // Either the communicator had ended before begin() could count it, or CUDA refused after that,
            // and the others wait.
            if (error.code() == CollectiveErrorCode::system && !ended()) watch_.failed(error.what());
            const CollectiveError told = watch_.completed(error);
            return watch_.add(task, task.call, stream, &told);
        }
    }

    // Throws invalid_argument, before anything is counted: the stream takes no operation as it is.
    void refuse_capture(const Call& call, CudaStream stream) const {
        const CudaDriver& driver = context_->driver();
        auto status = CudaCaptureStatus::none;
        if (const CudaResult result = driver.stream_is_capturing(stream, &status);
            result != CudaResult::success) {
            refuse(call.operation, fmt::format("the stream cannot be used: {}", driver.text_of(result)));
        }
        if (status == CudaCaptureStatus::none) return;
        refuse(
            call.operation,
            "the stream is being captured into a CUDA graph, whose runs could not be watched: call it before "
            "or after the capture");
    }

    // Puts it into the stream; returns what NCCL says about it, or nothing if the communicator ended
    // meanwhile.
    std::optional<NcclResult> enqueue_in(CudaStream stream, const Task& task) {
        const NcclLibrary& nccl = comm_->library();
        const Call& call = task.call;
        NcclLaunch launch{
            nccl,         nullptr, stream, peers_->rank(), peers_->world_size(), *nccl_op(call.reduce),
            token_.data()};
        const bool scales =
            is_reduction(call.operation) && call.reduce == ReduceOp::premul_sum && call.count > 0;
        auto result = comm_->call([&](NcclHandle handle) {
            launch.handle = handle;
            if (scales) {
                NcclScalar scalar = nccl_scalar(call.type, task.scalar);
                const NcclResult made =
                    nccl.create_premul_sum(&launch.op, scalar.bytes.data(), nccl_type(call.type),
                                           NcclScalarResidence::host_immediate, handle);
                if (made != NcclResult::success) return made;
            }
            return enqueue(launch, task);
        });
        if (scales && result == NcclResult::success) {
            result = comm_->call([&](NcclHandle handle) { return nccl.destroy_op(launch.op, handle); });
        }
        return result;
    }

    // An all_to_all in place has its input copied: NCCL has none. Whose copy it is will be `user`'s.
    Task with_copied_input(CudaStream stream, Task task, std::shared_ptr<NcclWork> user) {
        const std::size_t bytes = bytes_of(task) * static_cast<std::size_t>(peers_->world_size());
        if (copies_.empty() || copies_.back().size() < bytes) {
            copies_.emplace_back(context_, bytes);
        } else if (copy_user_) {
            // It may be in another stream.
            copy_user_->hold_back(stream);
        }
        context_->call("copying the input of all_to_all", &CudaDriver::copy_on_device,
                       copies_.back().pointer(), reinterpret_cast<CudaPointer>(task.in), bytes, stream);
        copy_user_ = std::move(user);
        task.in = copies_.back().data();
        return task;
    }

    std::shared_ptr<const CudaPrimaryContext> context_;
    std::shared_ptr<NcclComm> comm_;
    std::unique_ptr<NcclPeers> peers_;
    CudaMemory token_;
    std::vector<CudaMemory> copies_;  // only the last is in use; freeing one would wait for the device
    std::shared_ptr<NcclWork> copy_user_;
    CudaStream stream_ = nullptr;
    NcclWatch watch_;
};

}  // namespace

std::unique_ptr<Backend> make_nccl_backend(std::shared_ptr<const CudaPrimaryContext> context,
                                           std::shared_ptr<NcclComm> comm, std::unique_ptr<NcclPeers> peers) {
    return std::make_unique<NcclBackend>(std::move(context), std::move(comm), std::move(peers));
}

}  // namespace detail
}  // namespace ddprun
