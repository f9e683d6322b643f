#include "launcher/guardian/worker_lease.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace ddprun::inline launch {

struct WorkerLease::Shared {
    std::atomic<std::int64_t> end_ns{
        0};  // of the steady clock, which all processes of a machine share; 0: none
    std::atomic<std::int64_t> patience_ms{0};  // of the last end, and for a moment of the next
};

WorkerLease::WorkerLease() {
    static_assert(std::atomic<std::int64_t>::is_always_lock_free, "a lock would be the process's own");
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) shared_.reset(new (memory) Shared);
}

void WorkerLease::Unmap::operator()(Shared* shared) const noexcept { ::munmap(shared, sizeof(Shared)); }

void WorkerLease::set_end(const std::optional<LeaseEnd>& end) noexcept {
    if (!shared_) return;
    if (end) shared_->patience_ms = end->patience.count();
    const auto since_start = end ? end->at.time_since_epoch() : std::chrono::steady_clock::duration(0);
    shared_->end_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
}

std::optional<LeaseEnd> WorkerLease::end() const noexcept {
    const std::int64_t end_ns = shared_ ? shared_->end_ns.load() : 0;
    if (end_ns == 0) return std::nullopt;
    return LeaseEnd(LeaseEnd::TimePoint(std::chrono::nanoseconds(end_ns)),
                    std::chrono::milliseconds(shared_->patience_ms.load()));
}

}  // namespace ddprun::inline launch
