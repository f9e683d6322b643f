// NcclWork: an operation on its way through a stream, from its call to its end.
//
// Shared by the thread that launches it, NcclWatch, and the threads that wait for it; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/call/run_beside.hpp"
#include "collectives/call/task.hpp"
#include "collectives/call/work_state.hpp"
#include "collectives/nccl/cuda_driver.hpp"

namespace ddprun {
inline namespace detail {

// kSpins, kNcclYields and kLook: how a thread waits for an event of the device: first it looks all the time,
// then it lets others run in between, then it sleeps. (An event can only be asked.)
inline constexpr int kSpins = 4000;
inline constexpr int kSpinsPerLook = 64;  // at the clock
inline constexpr int kNcclYields = 2000;
inline constexpr std::chrono::microseconds kLook{50};

// NcclWorkplace: what the operations of a communicator have in common.
struct NcclWorkplace {
    const std::shared_ptr<const CudaPrimaryContext> context;
    // over: the communicator has ended. From then on an event proves nothing: aborted kernels end, too.
    std::atomic<bool> over{false};
    std::mutex mutex;  // held while an operation fails
};

class NcclWork final : public WorkState {
  public:
    ~NcclWork() override {
        if (event_ != nullptr) place_->context->driver().event_destroy(event_);
    }

    // Makes the work another operation, counted as `call`. For the launching thread, while no other thread
    // knows of the work. The place is borrowed; the timeout is for a task that has none.
    void begin(NcclWorkplace& place, const Task& task, const Call& call, std::chrono::milliseconds timeout) {
        place_ = &place;
        call_ = call;
        note_peers(task);
        started_ = Deadline::clock::now();
        deadline_ = started_ + (task.timeout.count() > 0 ? task.timeout : timeout);
        event_result_.store(CudaResult::not_ready, std::memory_order_relaxed);
        error_.reset();
        state_.store(State::launching, std::memory_order_relaxed);
    }

    const Call& call() const noexcept { return call_; }
    // peers(): the ranks with which send, recv and groups exchange messages.
    const std::vector<int>& peers() const noexcept { return peers_; }
    Deadline started() const noexcept { return started_; }
    Deadline deadline() const noexcept { return deadline_; }

    // Notes that the operation is in the stream, and records its event behind it. For the launching thread,
    // which has a CudaScope. Throws CollectiveError, code `system`.
    void launched(CudaStream stream) {
        const CudaDriver& driver = place_->context->driver();
        if (event_ == nullptr)
            driver.require(driver.event_create(&event_, kCudaEventDisableTiming), "making a CUDA event");
        driver.require(driver.event_record(event_, stream), "recording a CUDA event");
        auto before = State::launching;
        state_.compare_exchange_strong(before, State::running);
    }

    // Makes whatever comes into `stream` from now on wait for this operation, if that has been launched.
    void hold_back(CudaStream stream) {
        if (event_ == nullptr) return;
        const CudaDriver& driver = place_->context->driver();
        driver.require(driver.stream_wait_event(stream, event_, 0), "making a CUDA stream wait");
    }

    // Makes the operation fail; once it has ended, nothing changes any more.
    void fail(CollectiveError error) {
        const std::lock_guard lock(place_->mutex);
        auto now = state_.load();
        if (now == State::done || now == State::failed) return;
        error_ = std::move(error);
        // A waiter may find the event done meanwhile; then the operation ended before the communicator.
        while (now != State::done && !state_.compare_exchange_weak(now, State::failed)) {
        }
    }

    bool ended() override {
        const State now = state_;
        if (now != State::running) return now != State::launching;
        const CudaScope scope(*place_->context);
        return look();
    }

    bool wait_until(Deadline deadline) override {
        if (state_ == State::done || state_ == State::failed) return true;
        // scope: for all looks, as this thread does nothing else meanwhile.
        const CudaScope scope(*place_->context);
        for (int looks = 0; !look(); ++looks) {
            const bool spins = looks < kSpins;
            if ((!spins || looks % kSpinsPerLook == 0) && has_passed(deadline)) return look();
            if (spins) continue;
            if (looks < kSpins + kNcclYields) {
                std::this_thread::yield();
            } else {
                // The driver has no event that wakes a thread for a stream's.
                std::this_thread::sleep_for(kLook);
            }
        }
        return true;
    }

    // Calls done() at once where the operation has ended, else on a thread that waits for the end, since the
    // device does not report it.
    void then(std::function<void()> done) override {
        if (ended()) return done();
        run_beside([this, done = std::move(done)] {
            wait_until(Deadline::max());
            done();
        });
    }

    std::optional<CollectiveError> error() override {
        return state_ == State::failed ? error_ : std::nullopt;
    }

    // Returns the event's result where that is neither success nor not_ready.
    std::optional<CudaResult> event_error() const noexcept {
        const CudaResult result = event_result_;
        if (result == CudaResult::not_ready) return std::nullopt;
        return result;
    }

    // Looks whether the operation has ended; the caller has a CudaScope. `proven`: the event has come, and
    // need not be asked.
    bool look(bool proven = false) {
        const State now = state_;
        if (now != State::running) return now != State::launching;
        const CudaResult result =
            proven ? CudaResult::success : place_->context->driver().event_query(event_);
        if (result != CudaResult::success) {
            if (result != CudaResult::not_ready) event_result_ = result;
            return false;
        }
        // Looked at after the event: aborting begins after `over`.
        if (place_->over) return state_ != State::running;
        auto before = State::running;
        state_.compare_exchange_strong(before, State::done);
        return true;
    }

  private:
    void note_peers(const Task& task) {
        peers_.clear();
        if (!is_point_to_point(task.call.operation)) return;
        if (!task.members) return peers_.push_back(task.call.root);
        for (const Task& member : *task.members) peers_.push_back(member.call.root);
        std::sort(peers_.begin(), peers_.end());
        peers_.erase(std::unique(peers_.begin(), peers_.end()), peers_.end());
    }

    enum class State { launching, running, done, failed };

    NcclWorkplace* place_ = nullptr;
    Call call_;
    std::vector<int> peers_;
    Deadline started_;
    Deadline deadline_;
    CudaEvent event_ = nullptr;  // is used again and again, as making one takes longer than a small operation
    std::atomic<State> state_{State::launching};
    std::atomic<CudaResult> event_result_{CudaResult::not_ready};
    std::optional<CollectiveError> error_;  // written before the state becomes failed
};

// NcclBatch: works that are handed out one after the other, and looked after and used again together.
struct NcclBatch {
    std::array<NcclWork, 32> works;
    std::atomic<std::size_t> used{0};  // those that others than the launching thread may see
    CudaStream stream = nullptr;       // of the last
    bool mixed = false;                // others are in other streams
    std::shared_ptr<class NcclBatches> home;
    std::unique_ptr<NcclBatch> next;  // of the free ones

    bool is_full() const noexcept { return used == works.size(); }
    // Returns the next work, which no other thread sees before it counts as used. For the launching thread.
    NcclWork& begin_next(CudaStream into) {
        mixed = used > 0 && (mixed || stream != into);
        stream = into;
        return works[used];
    }
    // Returns true if all works are used, in one stream, and have ended: that is one question. The caller has
    // a CudaScope.
    bool has_ended() { return is_full() && !mixed && works.back().look() && oldest() == nullptr; }
    // Returns the first work that has not ended; null if all that are used have. The caller has a CudaScope.
    NcclWork* oldest() {
        // proven: a stream does one work after the other.
        const bool proven = is_full() && !mixed && works.back().look() && !works.back().error();
        for (NcclWork& work : std::span(works).first(used)) {
            if (!work.look(proven)) return &work;
        }
        return nullptr;
    }
};

// NcclBatches: the batches of a communicator that are free. Lives as long as any of them; any thread.
class NcclBatches : public NcclWorkplace, public std::enable_shared_from_this<NcclBatches> {
  public:
    explicit NcclBatches(std::shared_ptr<const CudaPrimaryContext> on) : NcclWorkplace{std::move(on)} {}
    ~NcclBatches() {
        const CudaScope scope(*context);
        while (free_) free_ = std::move(free_->next);
    }

    // Takes a batch of which no work is used. The batch comes back by itself when no thread has it any more;
    // in a forked child it stays where it is.
    std::shared_ptr<NcclBatch> take() {
        std::unique_lock lock(mutex);
        auto batch = free_ ? std::move(free_) : std::make_unique<NcclBatch>();
        free_ = std::move(batch->next);
        lock.unlock();
        batch->home = shared_from_this();
        return {batch.release(), give};
    }

  private:
    static void give(NcclBatch* batch) noexcept {
        if (batch->works.front().is_of_parent()) return forget(batch);
        const auto home = std::move(batch->home);  // outlives the lock
        batch->used = 0;
        const std::lock_guard lock(home->mutex);
        batch->next = std::move(home->free_);
        home->free_.reset(batch);
    }

    std::unique_ptr<NcclBatch> free_;  // guarded by the mutex
};

}  // namespace detail
}  // namespace ddprun
