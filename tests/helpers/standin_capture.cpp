#include "tests/helpers/standin_capture.hpp"

#include <algorithm>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/helpers/standin_cuda.hpp"

namespace ddprun {
namespace standin {
namespace {

constexpr auto kWrongThread = static_cast<CudaResult>(908);

struct Capture {
    CudaStream stream;
    CudaCaptureMode mode;
    std::thread::id thread;
    bool failed = false;
};

struct Captures {
    std::mutex mutex;
    std::vector<Capture> all;
};

Captures& captures() {
    // Never destroyed: threads of the program may still be in here when it ends.
    static const std::reference_wrapper<Captures> one(*new Captures);
    return one;
}

CudaCaptureMode& mode_of_thread() {
    thread_local CudaCaptureMode mode = CudaCaptureMode::global;
    return mode;
}

auto find(std::vector<Capture>& all, CudaStream stream) {
    return std::find_if(all.begin(), all.end(), [&](const Capture& one) { return one.stream == stream; });
}

}  // namespace

bool is_captured(CudaStream stream) {
    const std::lock_guard lock(captures().mutex);
    return find(captures().all, stream) != captures().all.end();
}

CudaResult allowed_beside_captures() {
    const CudaCaptureMode own = mode_of_thread();
    if (own == CudaCaptureMode::relaxed) return CudaResult::success;
    auto result = CudaResult::success;
    const std::lock_guard lock(captures().mutex);
    for (Capture& one : captures().all) {
        const bool mine = one.thread == std::this_thread::get_id() && one.mode != CudaCaptureMode::relaxed;
        const bool everybodys = own == CudaCaptureMode::global && one.mode == CudaCaptureMode::global;
        if (!mine && !everybodys) continue;
        one.failed = true;
        result = kCaptureUnsupported;
    }
    return result;
}

}  // namespace standin
}  // namespace ddprun

using namespace ddprun;
using namespace ddprun::standin;

extern "C" {

CudaResult cuThreadExchangeStreamCaptureMode(CudaCaptureMode* mode) {
    count_call();
    std::swap(*mode, mode_of_thread());
    return CudaResult::success;
}

CudaResult cuStreamIsCapturing(CudaStream stream, CudaCaptureStatus* status) {
    count_call();
    const std::lock_guard lock(captures().mutex);
    const auto found = find(captures().all, stream);
    *status = found == captures().all.end() ? CudaCaptureStatus::none
              : found->failed               ? CudaCaptureStatus::invalidated
                                            : CudaCaptureStatus::active;
    return CudaResult::success;
}

CudaResult cuStreamBeginCapture_v2(CudaStream stream, CudaCaptureMode mode) {
    const std::lock_guard lock(captures().mutex);
    if (stream == nullptr || find(captures().all, stream) != captures().all.end()) return kInvalidValue;
    captures().all.push_back({stream, mode, std::this_thread::get_id()});
    return CudaResult::success;
}

CudaResult cuStreamEndCapture(CudaStream stream, void** graph) {
    *graph = nullptr;
    const std::lock_guard lock(captures().mutex);
    const auto found = find(captures().all, stream);
    if (found == captures().all.end()) return kInvalidValue;
    if (found->mode != CudaCaptureMode::relaxed && found->thread != std::this_thread::get_id())
        return kWrongThread;
    const bool failed = found->failed;
    captures().all.erase(found);
    return failed ? kCaptureInvalidated : CudaResult::success;
}

}  // extern "C"
