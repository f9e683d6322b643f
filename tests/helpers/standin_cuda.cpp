#include "tests/helpers/standin_cuda.hpp"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "tests/helpers/standin_capture.hpp"
#include "tests/helpers/standin_control.hpp"
#include "tests/helpers/standin_script.hpp"

namespace ddprun {
namespace standin {
namespace {

constexpr auto kInvalidContext = static_cast<CudaResult>(201);
constexpr auto kIllegalAddress = static_cast<CudaResult>(700);

struct Event {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t recorded = 0;
    std::uint64_t finished = 0;
    bool broken = false;
    bool captured = false;
    std::chrono::steady_clock::time_point time;
};

struct State {
    std::mutex mutex;
    std::map<std::uintptr_t, std::size_t> memory;
    std::set<CudaStream> breaking;
    Stream default_stream;
    std::condition_variable queried;
    int queries = 0;  // of events
};

State& state() {
    // Never destroyed: threads of the program may still be in here when it ends.
    static const std::reference_wrapper<State> one(*new State);
    return one;
}

CudaContext& current_context() {
    thread_local CudaContext context = nullptr;
    return context;
}

int& calls_of_thread() {
    thread_local int calls = 0;
    return calls;
}

Event& event_of(CudaEvent handle) { return *reinterpret_cast<Event*>(handle); }

}  // namespace

Stream::Stream() : thread_([this] { run(); }) {}

Stream::~Stream() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void Stream::put(std::function<void()> step) {
    {
        const std::lock_guard lock(mutex_);
        steps_.push_back(std::move(step));
    }
    changed_.notify_all();
}

bool Stream::idle() {
    const std::lock_guard lock(mutex_);
    return steps_.empty() && !busy_;
}

void Stream::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return stopping_ || !steps_.empty(); });
        if (steps_.empty()) return;
        const auto step = std::move(steps_.front());
        steps_.pop_front();
        busy_ = true;
        lock.unlock();
        step();
        lock.lock();
        busy_ = false;
    }
}

Stream& stream_of(CudaStream handle) {
    return handle == nullptr ? state().default_stream : *reinterpret_cast<Stream*>(handle);
}

bool is_device_memory(const void* data, std::size_t bytes) {
    State& all = state();
    const std::lock_guard lock(all.mutex);
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    auto after = all.memory.upper_bound(begin);
    if (after == all.memory.begin()) return false;
    --after;
    return begin + bytes <= after->first + after->second;
}

bool has_context() { return current_context() != nullptr; }

void count_call() { ++calls_of_thread(); }

void break_next_event(CudaStream stream) {
    State& all = state();
    const std::lock_guard lock(all.mutex);
    all.breaking.insert(stream);
}

}  // namespace standin
}  // namespace ddprun

using namespace ddprun;
using namespace ddprun::standin;

extern "C" {

CudaResult cuInit(unsigned int) { return static_cast<CudaResult>(fault("cuda_init").value_or(0)); }

CudaResult cuGetErrorString(CudaResult result, const char** text) {
    *text = result == kInvalidContext                ? "invalid device context"
            : result == kIllegalAddress              ? "an illegal memory access was encountered"
            : result == static_cast<CudaResult>(100) ? "no CUDA-capable device is detected"
            : result == static_cast<CudaResult>(2)   ? "out of memory"
                                                     : nullptr;
    return *text != nullptr ? CudaResult::success : kInvalidValue;
}

CudaResult cuDeviceGetCount(int* count) {
    *count = fault("devices").value_or(8);
    return CudaResult::success;
}

CudaResult cuDeviceGet(CudaDevice* device, int ordinal) {
    *device = ordinal;
    return CudaResult::success;
}

CudaResult cuDeviceGetName(char* name, int length, CudaDevice device) {
    std::snprintf(name, static_cast<std::size_t>(length), "stand-in %d", device);
    return CudaResult::success;
}

CudaResult cuDevicePrimaryCtxRetain(CudaContext* context, CudaDevice device) {
    *context = reinterpret_cast<CudaContext>(static_cast<std::uintptr_t>(device + 1));
    return CudaResult::success;
}

CudaResult cuDevicePrimaryCtxRelease_v2(CudaDevice) { return CudaResult::success; }

CudaResult cuCtxGetCurrent(CudaContext* context) {
    count_call();
    *context = current_context();
    return CudaResult::success;
}

CudaResult cuCtxSetCurrent(CudaContext context) {
    count_call();
    current_context() = context;
    return CudaResult::success;
}

CudaResult cuStreamCreate(CudaStream* stream, unsigned int) {
    if (!has_context()) return kInvalidContext;
    *stream = reinterpret_cast<CudaStream>(new Stream);
    return CudaResult::success;
}

CudaResult cuStreamDestroy_v2(CudaStream stream) {
    delete reinterpret_cast<Stream*>(stream);
    return CudaResult::success;
}

CudaResult cuStreamQuery(CudaStream stream) {
    count_call();
    if (const CudaResult no = allowed_beside_captures(); no != CudaResult::success) return no;
    return stream_of(stream).idle() ? CudaResult::success : CudaResult::not_ready;
}

CudaResult cuStreamWaitEvent(CudaStream stream, CudaEvent handle, unsigned int) {
    count_call();
    Event& event = event_of(handle);
    std::uint64_t wanted = 0;
    {
        const std::lock_guard lock(event.mutex);
        wanted = event.recorded;
    }
    stream_of(stream).put([&event, wanted] {
        std::unique_lock lock(event.mutex);
        event.changed.wait(lock, [&] { return event.finished >= wanted; });
    });
    return CudaResult::success;
}

CudaResult cuEventCreate(CudaEvent* event, unsigned int) {
    count_call();
    if (!has_context()) return kInvalidContext;
    *event = reinterpret_cast<CudaEvent>(new Event);
    return CudaResult::success;
}

CudaResult cuEventDestroy_v2(CudaEvent event) {
    delete &event_of(event);
    return CudaResult::success;
}

CudaResult cuEventRecord(CudaEvent handle, CudaStream stream) {
    count_call();
    if (!has_context()) return kInvalidContext;
    Event& event = event_of(handle);
    std::uint64_t number = 0;
    {
        State& all = state();
        const std::lock_guard lock(all.mutex);
        const std::lock_guard inner(event.mutex);
        event.broken = all.breaking.erase(stream) > 0;
        event.captured = is_captured(stream);
        if (event.captured) return CudaResult::success;
        number = ++event.recorded;
    }
    stream_of(stream).put([&event, number] {
        {
            const std::lock_guard lock(event.mutex);
            event.finished = number;
            event.time = std::chrono::steady_clock::now();
            // Inside the lock: who sees the event done may destroy it.
            event.changed.notify_all();
        }
    });
    return CudaResult::success;
}

int standin_driver_calls() { return calls_of_thread(); }

void standin_await_queries(int count) {
    State& all = state();
    std::unique_lock lock(all.mutex);
    all.queried.wait(lock, [&all, wanted = all.queries + count] { return all.queries >= wanted; });
}

CudaResult cuEventQuery(CudaEvent handle) {
    count_call();
    const CudaResult beside_captures = allowed_beside_captures();
    {
        State& all = state();
        const std::lock_guard lock(all.mutex);
        ++all.queries;
        all.queried.notify_all();
    }
    if (!has_context()) return kInvalidContext;
    if (beside_captures != CudaResult::success) return beside_captures;
    Event& event = event_of(handle);
    const std::lock_guard lock(event.mutex);
    if (event.captured) return kCapturedEvent;
    if (event.broken) return kIllegalAddress;
    return event.finished >= event.recorded ? CudaResult::success : CudaResult::not_ready;
}

CudaResult cuEventElapsedTime(float* milliseconds, CudaEvent begin, CudaEvent end) {
    const std::chrono::duration<float, std::milli> time = event_of(end).time - event_of(begin).time;
    *milliseconds = time.count();
    return CudaResult::success;
}

CudaResult cuMemAlloc_v2(CudaPointer* pointer, std::size_t bytes) {
    count_call();
    if (!has_context()) return kInvalidContext;
    if (const CudaResult no = allowed_beside_captures(); no != CudaResult::success) return no;
    void* memory = std::malloc(bytes);
    if (memory == nullptr) return static_cast<CudaResult>(2);
    *pointer = reinterpret_cast<CudaPointer>(memory);
    State& all = state();
    const std::lock_guard lock(all.mutex);
    all.memory[*pointer] = bytes;
    return CudaResult::success;
}

CudaResult cuMemFree_v2(CudaPointer pointer) {
    if (const CudaResult no = allowed_beside_captures(); no != CudaResult::success) return no;
    State& all = state();
    const std::lock_guard lock(all.mutex);
    if (all.memory.erase(pointer) == 0) return kInvalidValue;
    std::free(reinterpret_cast<void*>(pointer));
    return CudaResult::success;
}

CudaResult cuMemcpyHtoD_v2(CudaPointer to, const void* from, std::size_t bytes) {
    if (const CudaResult no = allowed_beside_captures(); no != CudaResult::success) return no;
    if (!is_device_memory(reinterpret_cast<void*>(to), bytes)) return kInvalidValue;
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return CudaResult::success;
}

CudaResult cuMemcpyDtoH_v2(void* to, CudaPointer from, std::size_t bytes) {
    if (const CudaResult no = allowed_beside_captures(); no != CudaResult::success) return no;
    if (!is_device_memory(reinterpret_cast<void*>(from), bytes)) return kInvalidValue;
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return CudaResult::success;
}

CudaResult cuMemcpyDtoDAsync_v2(CudaPointer to, CudaPointer from, std::size_t bytes, CudaStream stream) {
    if (!is_device_memory(reinterpret_cast<void*>(to), bytes)) return kInvalidValue;
    if (!is_device_memory(reinterpret_cast<void*>(from), bytes)) return kInvalidValue;
    stream_of(stream).put(
        [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
    return CudaResult::success;
}

}  // extern "C"
