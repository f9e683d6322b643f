#include "collectives/nccl/nccl_work.hpp"

#include <algorithm>
#include <thread>

namespace ddprun::inline detail {
namespace {

// How a thread waits for an event of the device: first it looks all the time, then it lets others run in
// between, then it sleeps. (An event can only be asked.)
constexpr int kSpins = 4000;
constexpr int kSpinsPerLook = 64;  // at the clock
constexpr int kNcclYields = 2000;
constexpr std::chrono::microseconds kLook{50};

std::vector<int> peers_of(const Task& task) {
    if (!is_point_to_point(task.call.operation)) return {};
    if (!task.members) return {task.call.root};
    std::vector<int> peers;
    for (const Task& member : *task.members) peers.push_back(member.call.root);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    return peers;
}

}  // namespace

CudaEventPool::~CudaEventPool() {
    const CudaScope scope(*context_);
    for (const CudaEvent event : events_) context_->driver().event_destroy(event);
}

CudaEvent CudaEventPool::take() {
    {
        const std::lock_guard lock(mutex_);
        if (!events_.empty()) {
            const CudaEvent event = events_.back();
            events_.pop_back();
            return event;
        }
    }
    CudaEvent event = nullptr;
    context_->call("making a CUDA event", &CudaDriver::event_create, &event, kCudaEventDisableTiming);
    return event;
}

void CudaEventPool::give(CudaEvent event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
}

NcclWork::NcclWork(std::shared_ptr<CudaEventPool> events, std::shared_ptr<const std::atomic<bool>> over,
                   const Task& task, Deadline started, Deadline deadline)
    : events_(std::move(events)),
      over_(std::move(over)),
      call_(task.call),
      peers_(peers_of(task)),
      started_(started),
      deadline_(deadline) {}

NcclWork::~NcclWork() {
    if (event_ != nullptr) events_->give(event_);
}

void NcclWork::launched(CudaEvent event) {
    event_ = event;
    auto before = State::launching;
    state_.compare_exchange_strong(before, State::running);
}

void NcclWork::hold_back(CudaStream stream) {
    if (event_ == nullptr) return;
    const CudaDriver& driver = events_->context().driver();
    driver.require(driver.stream_wait_event(stream, event_, 0), "making a CUDA stream wait");
}

void NcclWork::fail(CollectiveError error) {
    const std::lock_guard lock(mutex_);
    auto now = state_.load();
    if (now == State::done || now == State::failed) return;
    error_ = std::move(error);
    // A waiter may find the event done meanwhile; then the operation ended before the communicator.
    while (now != State::done && !state_.compare_exchange_weak(now, State::failed)) {
    }
}

bool NcclWork::ended() {
    const State now = state_;
    if (now != State::running) return now != State::launching;
    const CudaScope scope(events_->context());
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

bool NcclWork::wait_until(Deadline deadline) {
    for (int looks = 0; !ended(); ++looks) {
        const bool spins = looks < kSpins;
        if ((!spins || looks % kSpinsPerLook == 0) && has_passed(deadline)) return ended();
        if (spins) continue;
        if (looks < kSpins + kNcclYields) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(kLook);  // the driver has no event that wakes a thread for a stream's
        }
    }
    return true;
}

std::optional<CollectiveError> NcclWork::error() {
    const std::lock_guard lock(mutex_);
    return state_ == State::failed ? error_ : std::nullopt;
}

std::optional<CudaResult> NcclWork::event_error() const noexcept {
    const CudaResult result = event_result_;
    if (result == CudaResult::not_ready) return std::nullopt;
    return result;
}

}  // namespace ddprun::inline detail
