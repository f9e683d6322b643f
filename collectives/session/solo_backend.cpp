#include "collectives/session/solo_backend.hpp"

#include "rendezvous/system/check.hpp"

namespace ddprun::inline detail {

void SoloBackend::run(const Task& task) {
    {
        const std::lock_guard lock(mutex_);
        Call call = task.call;
        call.sequence = ++sequence_;
        if (verdict_) throw error_of(*verdict_, call);
    }
    switch (task.call.operation) {
        case Operation::all_reduce:
        case Operation::broadcast:
        case Operation::all_gather:
        case Operation::reduce_scatter:
        case Operation::barrier:
        case Operation::reduce:
        case Operation::gather:
        case Operation::scatter:
        case Operation::all_to_all:
        case Operation::split:
        case Operation::allocate: break;
        case Operation::none:
        case Operation::send:
        case Operation::recv:
        case Operation::join:
        case Operation::group: check(false, "no operation for a rank alone");
    }
    copy_bytes(task.out, task.in, bytes_of(task));
}

std::vector<int> SoloBackend::leave(Deadline) {
    if (const auto ended = verdict()) throw error_of(*ended, "finalize");
    return {};
}

void SoloBackend::abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!verdict_) verdict_ = abort_verdict(0, reason);
}

std::optional<Verdict> SoloBackend::verdict() const {
    const std::lock_guard lock(mutex_);
    return verdict_;
}

}  // namespace ddprun::inline detail
