#include "launcher/look/python_frames.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "launcher/look/bounded_reader.hpp"
#include "launcher/look/object_bytes.hpp"
#include "launcher/look/pthread_ids.hpp"
#include "launcher/look/python_layout.hpp"
#include "launcher/look/python_objects.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using Address = std::uintptr_t;

// Marks of the interpreter's own are between its calls.
constexpr std::size_t kMaxLinks = 3 * kMaxFrames;
// Of all threads together; some threads' frames may be missing then.
constexpr std::size_t kMaxToldText = 16 * 1024 * 1024;
constexpr int kTries = 2;

// PythonStackReader reads the stacks of one interpreter's process, once.
class PythonStackReader {
  public:
    PythonStackReader(const MemoryReader& memory, const PythonLayout& layout, Address runtime)
        : memory_(memory), layout_(layout), objects_(memory, layout), runtime_(runtime) {}

    void read_into(PythonStacks& stacks, std::span<const pid_t> threads) {
        auto interpreter = memory_.value<Address>(runtime_ + layout_.interpreters);
        for (std::size_t i = 0; i < kMaxInterpreters && interpreter && *interpreter != 0; ++i) {
            read_interpreter(*interpreter, stacks);
            interpreter = memory_.value<Address>(*interpreter + layout_.next_interpreter);
        }
        if (!layout_.thread_native_id) {
            const auto ids = pthread_ids(memory_, pthreads_, threads);
            for (std::size_t i = 0; i < ids.size(); ++i) stacks.threads[i].id = ids[i];
        }
    }

  private:
    void read_interpreter(Address interpreter, PythonStacks& stacks) {
        if (layout_.collecting)
            stacks.collecting |=
                memory_.value<std::int32_t>(interpreter + *layout_.collecting).value_or(0) != 0;
        const Address lock = layout_.is_lock_shared ? runtime_ : interpreter;
        const auto holder = memory_.value<Address>(lock + layout_.lock_holder).value_or(0);
        const bool is_held = memory_.value<std::int32_t>(lock + layout_.lock_taken) == 1;
        auto state = memory_.value<Address>(interpreter + layout_.threads);
        while (state && *state != 0) {
            stacks.is_cut = stacks.threads.size() == kMaxPythonThreads;
            if (stacks.is_cut) return;
            const Address here = *state;
            state = read_thread(here, is_held && here == holder, stacks);
        }
    }

    // Returns the next thread's state.
    std::optional<Address> read_thread(Address state, bool has_lock, PythonStacks& stacks) {
        const auto object = ObjectBytes::read(memory_, state,
                                              {layout_.next_thread, layout_.thread_frame,
                                               layout_.thread_pthread, layout_.thread_native_id.value_or(0)});
        if (!object) return std::nullopt;
        PythonThread thread;
        thread.has_lock = has_lock;
        if (layout_.thread_native_id)
            thread.id = static_cast<pid_t>(object->at<std::int64_t>(*layout_.thread_native_id));
        read_frames(state, thread);
        stacks.threads.push_back(std::move(thread));
        pthreads_.push_back(object->at<Address>(layout_.thread_pthread));
        return object->at<Address>(layout_.next_thread);
    }

    void read_frames(Address state, PythonThread& thread) {
        for (int attempt = 0; attempt < kTries; ++attempt) {
            thread.frames.clear();
            const auto innermost = innermost_frame(state);
            thread.is_torn = !innermost || !follow(*innermost, thread) || innermost_frame(state) != innermost;
            if (!thread.is_torn) return;
        }
    }

    std::optional<Address> innermost_frame(Address state) const {
        const auto place = memory_.value<Address>(state + layout_.thread_frame);
        if (!place || !layout_.frame_in_cframe || *place == 0) return place;
        return memory_.value<Address>(*place + *layout_.frame_in_cframe);
    }

    // Returns false if the chain makes no sense.
    bool follow(Address next, PythonThread& thread) {
        for (std::size_t link = 0; next != 0; ++link) {
            thread.is_cut = link == kMaxLinks || thread.frames.size() == kMaxFrames;
            if (thread.is_cut) return true;
            const auto frame = objects_.frame(next);
            if (!frame) return false;
            next = frame->previous;
            if (!frame->is_call) continue;
            auto told = objects_.told(*frame);
            if (!told) return false;
            told_text_ += told->function.size() + told->file.size();
            if (told_text_ > kMaxToldText) return false;
            thread.frames.push_back(std::move(*told));
        }
        return true;
    }

    const MemoryReader& memory_;
    const PythonLayout& layout_;
    PythonObjects objects_;
    Address runtime_;
    std::vector<Address> pthreads_;  // of the threads that were read
    std::size_t told_text_ = 0;
};

}  // namespace

PythonStacks read_python_stacks(const MemoryReader& memory, const PythonRuntime& runtime,
                                std::span<const pid_t> threads) {
    PythonStacks stacks;
    stacks.version = python_version_text(runtime.version);
    const BoundedReader bounded(memory);
    const auto offsets = bounded.value<std::array<std::uint64_t, kMaxOffsetWords>>(runtime.address);
    const auto known =
        python_layout(runtime.version, runtime.is_debug_build,
                      offsets ? std::span<const std::uint64_t>(*offsets) : std::span<const std::uint64_t>());
    stacks.why_not = known.why_not;
    if (!known.layout) return stacks;
    PythonStackReader(bounded, *known.layout, runtime.address).read_into(stacks, threads);
    stacks.is_cut |= bounded.is_exhausted();
    if (stacks.threads.empty()) stacks.why_not = fmt::format("Python {} has no thread", stacks.version);
    return stacks;
}

}  // namespace launch
}  // namespace ddprun
