#include "collectives/nccl_comm.hpp"

#include <future>
#include <system_error>
#include <thread>

#include "collectives/quiet_thread.hpp"

namespace ddprun {
namespace {

// Between looks at what NCCL does in the background, of which no event tells.
constexpr std::chrono::milliseconds kLook{1};

}  // namespace

NcclComm::NcclComm(std::shared_ptr<const NcclLibrary> library,
                   std::shared_ptr<const CudaPrimaryContext> context)
    : core_(std::make_shared<Core>()) {
    core_->library = std::move(library);
    core_->context = std::move(context);
}

NcclComm::~NcclComm() { abort(); }

NcclResult NcclComm::begin(const NcclUniqueId& id, int rank, int ranks) {
    const std::lock_guard lock(core_->mutex);
    const CudaScope scope(context());
    NcclConfig config;
    config.blocking = 0;
    return library().init_rank_config(&core_->handle, ranks, id, rank, &config);
}

std::optional<NcclResult> NcclComm::state() {
    const std::unique_lock lock(core_->mutex, std::try_to_lock);
    if (!lock || core_->ending || core_->handle == nullptr) return std::nullopt;
    const CudaScope scope(context());
    auto found = NcclResult::success;
    const NcclResult asked = library().get_async_error(core_->handle, &found);
    return asked == NcclResult::success ? found : asked;
}

bool NcclComm::abort() {
    core_->ending = true;
    const std::lock_guard one(abort_mutex_);
    if (core_->gone || abort_tried_) return core_->gone;
    abort_tried_ = true;
    auto promise = std::make_shared<std::promise<void>>();
    auto done = promise->get_future();
    std::thread thread;
    try {
        thread = start_without_signals([core = core_, promise] {
            const std::lock_guard lock(core->mutex);
            if (core->handle != nullptr) {
                const CudaScope scope(*core->context);
                core->library->abort(core->handle);
                core->handle = nullptr;
            }
            core->gone = true;
            promise->set_value();
        });
    } catch (const std::system_error&) {
        // No thread can be had: as if NCCL did not return.
        return false;
    }
    if (done.wait_for(kNcclAbortLimit) == std::future_status::ready) {
        thread.join();
    } else {
        thread.detach();
    }
    return core_->gone;
}

bool NcclComm::finish(std::chrono::steady_clock::time_point limit, const std::function<bool()>& hopeless) {
    const auto result = call([&](NcclHandle handle) { return library().finalize(handle); });
    auto now = result;
    while (now == NcclResult::in_progress || (!now && !core_->ending)) {
        if (hopeless() || std::chrono::steady_clock::now() >= limit) return false;
        // NCCL has no event for the end of what goes on in the background.
        std::this_thread::sleep_for(kLook);
        now = state();
    }
    if (now != NcclResult::success) return false;
    core_->ending = true;
    const std::lock_guard lock(core_->mutex);
    if (core_->handle == nullptr) return true;
    const CudaScope scope(context());
    library().destroy(core_->handle);
    core_->handle = nullptr;
    core_->gone = true;
    return true;
}

std::string NcclComm::describe(NcclResult result) {
    const char* error = library().get_error_string(result);
    std::string text = error != nullptr ? error : "error " + std::to_string(static_cast<int>(result));
    const std::unique_lock lock(core_->mutex, std::try_to_lock);
    const char* words = lock ? library().get_last_error(core_->handle) : nullptr;
    std::string last = words != nullptr ? words : "";
    while (!last.empty() && (last.back() == '\n' || last.back() == ' ')) last.pop_back();
    return last.empty() ? text : text + " (" + last + ')';
}

}  // namespace ddprun
