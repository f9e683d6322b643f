#include "launcher/guardian/worker_lease.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace ddprun {

struct WorkerLease::Shared {
    std::atomic<std::int64_t> end_ns{
        0};  // of the steady clock, which all processes of a machine share; 0: none
};

WorkerLease::WorkerLease() {
    static_assert(std::atomic<std::int64_t>::is_always_lock_free, "a lock would be the process's own");
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) shared_.reset(new (memory) Shared);
}

void WorkerLease::Unmap::operator()(Shared* shared) const noexcept { ::munmap(shared, sizeof(Shared)); }

void WorkerLease::set_end(std::optional<TimePoint> end) noexcept {
    if (!shared_) return;
    const auto since_start = end.value_or(TimePoint()).time_since_epoch();
    shared_->end_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
}

std::optional<WorkerLease::TimePoint> WorkerLease::end() const noexcept {
    const std::int64_t end_ns = shared_ ? shared_->end_ns.load() : 0;
    if (end_ns == 0) return std::nullopt;
    return TimePoint(std::chrono::nanoseconds(end_ns));
}

}  // namespace ddprun
