// NcclWork: an operation on its way through a stream, from its call to its end.
//
// Shared by the thread that launches it, NcclWatch, and the threads that wait for it; any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/call/backend.hpp"
#include "collectives/nccl/cuda_driver.hpp"

namespace ddprun::inline detail {

// How a thread waits for an event of the device: first it looks all the time, then it lets others run in
// between, then it sleeps. (An event can only be asked.)
inline constexpr int kSpins = 4000;
inline constexpr int kSpinsPerLook = 64;  // at the clock
inline constexpr int kNcclYields = 2000;
inline constexpr std::chrono::microseconds kLook{50};

// Events without times, used again and again: making one takes longer than a small operation.
class CudaEventPool {
  public:
    explicit CudaEventPool(std::shared_ptr<const CudaPrimaryContext> context)
        : context_(std::move(context)) {}
    ~CudaEventPool() {
        const CudaScope scope(*context_);
        for (const CudaEvent event : events_) context_->driver().event_destroy(event);
    }

    const CudaPrimaryContext& context() const noexcept { return *context_; }
    // The caller has a CudaScope. Throws CollectiveError, code `system`.
    CudaEvent take() {
        {
            const std::lock_guard lock(mutex_);
            if (!events_.empty()) {
                const CudaEvent event = events_.back();
                events_.pop_back();
                return event;
            }
        }
        CudaEvent event = nullptr;
        context_->driver().require(context_->driver().event_create(&event, kCudaEventDisableTiming),
                                   "making a CUDA event");
        return event;
    }

    void give(CudaEvent event) {
        const std::lock_guard lock(mutex_);
        events_.push_back(event);
    }

  private:
    std::shared_ptr<const CudaPrimaryContext> context_;
    std::mutex mutex_;
    std::vector<CudaEvent> events_;
};

class NcclWork final : public WorkState, public std::enable_shared_from_this<NcclWork> {
  public:
    // `over`: the communicator has ended. From then on an event proves nothing: aborted kernels end, too.
    NcclWork(std::shared_ptr<CudaEventPool> events, std::shared_ptr<const std::atomic<bool>> over,
             const Task& task, Deadline started, Deadline deadline)
        : events_(std::move(events)),
          over_(std::move(over)),
          call_(task.call),
          peers_(peers_of(task)),
          started_(started),
          deadline_(deadline) {}

    ~NcclWork() override {
        if (event_ != nullptr) events_->give(event_);
    }

    const Call& call() const noexcept { return call_; }
    // The ranks with which send, recv and groups exchange messages.
    const std::vector<int>& peers() const noexcept { return peers_; }
    Deadline started() const noexcept { return started_; }
    Deadline deadline() const noexcept { return deadline_; }

    // The operation and then this event are in the stream. By the launching thread, once.
    void launched(CudaEvent event) {
        event_ = event;
        auto before = State::launching;
        state_.compare_exchange_strong(before, State::running);
    }

    // Whatever comes into `stream` from now on waits for this operation, if it has been launched.
    void hold_back(CudaStream stream) {
        if (event_ == nullptr) return;
        const CudaDriver& driver = events_->context().driver();
        driver.require(driver.stream_wait_event(stream, event_, 0), "making a CUDA stream wait");
    }

    // It has failed; once it has ended, nothing changes any more.
    void fail(CollectiveError error) {
        const std::lock_guard lock(mutex_);
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
        const CudaScope scope(events_->context());
        return look();
    }

    bool wait_until(Deadline deadline) override {
        if (state_ == State::done || state_ == State::failed) return true;
        // One for all looks, as this thread does nothing else meanwhile.
        const CudaScope scope(events_->context());
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

    // Nobody is told by the device: a thread waits for it.
    void then(std::function<void()> done) override {
        if (ended()) return done();
        run_beside([work = shared_from_this(), done = std::move(done)] {
            work->wait_until(Deadline::max());
            done();
        });
    }

    std::optional<CollectiveError> error() override {
        const std::lock_guard lock(mutex_);
        return state_ == State::failed ? error_ : std::nullopt;
    }

    // Another result of the event than success and not_ready.
    std::optional<CudaResult> event_error() const noexcept {
        const CudaResult result = event_result_;
        if (result == CudaResult::not_ready) return std::nullopt;
        return result;
    }

  private:
    // As ended(); the caller has a CudaScope.
    bool look() {
        const State now = state_;
        if (now != State::running) return now != State::launching;
        const CudaResult result = events_->context().driver().event_query(event_);
        if (result != CudaResult::success) {
            if (result != CudaResult::not_ready) event_result_ = result;
            return false;
        }
        // Looked at after the event: aborting begins after `over`.
        if (over_->load()) return state_ != State::running;
        auto before = State::running;
        state_.compare_exchange_strong(before, State::done);
        return true;
    }

    static std::vector<int> peers_of(const Task& task) {
        if (!is_point_to_point(task.call.operation)) return {};
        if (!task.members) return {task.call.root};
        std::vector<int> peers;
        for (const Task& member : *task.members) peers.push_back(member.call.root);
        std::sort(peers.begin(), peers.end());
        peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
        return peers;
    }

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
