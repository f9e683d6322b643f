#include "collectives/nccl/nccl_comm.hpp"

#include <fmt/core.h>

#include <system_error>
#include <utility>

#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace detail {

NcclComm::NcclComm(std::shared_ptr<const NcclLibrary> library,
                   std::shared_ptr<const CudaPrimaryContext> context)
    : core_(std::make_shared<Core>()) {
    core_->library = std::move(library);
    core_->context = std::move(context);
}

NcclComm::~NcclComm() { abort(); }

void NcclComm::begin(const NcclUniqueId& id, int rank, int ranks, std::shared_ptr<const Event> done) {
    core_->inside = Inside::helper;
    try {
        start_without_signals([core = core_, id, rank, ranks, done = std::move(done)] {
            core->make(id, rank, ranks);
            done->signal();
        }).detach();
    } catch (const std::system_error&) {
        core_->inside = Inside::nobody;
        throw;
    }
}

std::optional<NcclResult> NcclComm::made() const {
    const std::lock_guard lock(core_->mutex);
    return core_->made;
}

std::optional<NcclResult> NcclComm::state() {
    const CudaScope scope(context());
    return core_->visit(false, [&](NcclHandle handle) {
        auto found = NcclResult::success;
        const NcclResult asked = library().get_async_error(handle, &found);
        return asked == NcclResult::success ? found : asked;
    });
}

bool NcclComm::abort() {
    const std::lock_guard one(abort_mutex_);
    std::unique_lock lock(core_->mutex);
    core_->closed = true;
    core_->changed.notify_all();
    if (core_->ended || core_->gone) return core_->gone;
    if (!core_->made && core_->inside == Inside::helper) {
        // A caller that does not want it any more has waited for it long enough.
        core_->left_behind = true;
        return false;
    }
    lock.unlock();
    try {
        start_without_signals([core = core_] { core->abort(); }).detach();
    } catch (const std::system_error&) {
        // No thread can be had: as if NCCL did not return.
        return false;
    }
    lock.lock();
    core_->changed.wait_for(lock, kNcclAbortTimeout, [&] { return core_->ended; });
    core_->ended = true;
    return core_->gone;
}

bool NcclComm::finish(Deadline deadline) {
    std::unique_lock lock(core_->mutex);
    if (core_->closed || core_->handle == nullptr) return core_->gone;
    core_->closed = true;
    const auto is_in = [&] { return core_->is_free() && core_->come_in(Inside::helper); };
    if (!core_->changed.wait_until(lock, deadline, is_in)) return false;
    lock.unlock();
    try {
        start_without_signals([core = core_] { core->finish(); }).detach();
    } catch (const std::system_error&) {
        core_->leave();
        return false;
    }
    lock.lock();
    core_->changed.wait_until(lock, deadline, [&] { return core_->is_free() || core_->left_behind; });
    return core_->gone;
}

std::string NcclComm::describe(NcclResult result) const {
    const char* error = library().get_error_string(result);
    std::string text = error != nullptr ? error : fmt::format("error {}", static_cast<int>(result));
    // It is a call of no communicator in particular: NCCL does not look at which it is given.
    const char* words = library().get_last_error(nullptr);
    std::string last = words != nullptr ? words : "";
    while (!last.empty() && (last.back() == '\n' || last.back() == ' ')) last.pop_back();
    return last.empty() ? text : fmt::format("{} ({})", text, last);
}

bool NcclComm::Core::await_entry() {
    std::unique_lock lock(mutex);
    bool in = false;
    changed.wait(lock, [&] { return closed || (is_free() && (in = come_in(Inside::caller))); });
    return in;
}

void NcclComm::Core::leave() {
    inside = Inside::nobody;
    if (!awaited || !awaited.exchange(false)) return;
    // Who has looked and does not sleep yet would miss it.
    { const std::lock_guard lock(mutex); }
    changed.notify_all();
}

void NcclComm::Core::make(const NcclUniqueId& id, int rank, int ranks) {
    const CudaScope scope(*context);
    NcclConfig config;
    config.blocking = 1;
    NcclHandle created = nullptr;
    const NcclResult result = library->init_rank_config(&created, ranks, id, rank, &config);
    std::unique_lock lock(mutex);
    made = result;
    handle = created;
    helper_is_out(lock);
}

void NcclComm::Core::finish() {
    const CudaScope scope(*context);
    const bool finalized = library->finalize(handle) == NcclResult::success;
    if (finalized) library->destroy(handle);
    std::unique_lock lock(mutex);
    if (finalized) handle = nullptr;
    gone = finalized;
    helper_is_out(lock);
}

void NcclComm::Core::helper_is_out(std::unique_lock<std::mutex>& lock) {
    inside = Inside::nobody;
    const NcclHandle unwanted = left_behind ? handle.exchange(nullptr) : nullptr;
    lock.unlock();
    changed.notify_all();
    if (unwanted != nullptr) library->abort(unwanted);
}

void NcclComm::Core::abort() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kNcclCallTimeout, [&] { return is_free(); });
    left_behind = inside == Inside::helper;
    if (!left_behind) {
        const NcclHandle taken = handle.exchange(nullptr);
        lock.unlock();
        if (taken != nullptr) {
            const CudaScope scope(*context);
            library->abort(taken);
        }
        lock.lock();
        gone = true;
    }
    ended = true;
    changed.notify_all();
}

}  // namespace detail
}  // namespace ddprun
