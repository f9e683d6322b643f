#include "launcher/watch/process_look.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>
#include <utility>

#include "launcher/look/kernel_view.hpp"
#include "launcher/look/mappings.hpp"
#include "launcher/look/native/native_frames.hpp"
#include "launcher/look/native/thread_stop.hpp"
#include "launcher/look/process_memory.hpp"
#include "launcher/look/python_frames.hpp"
#include "launcher/look/python_runtime.hpp"

namespace ddprun {
inline namespace launch {
namespace {

ThreadLook* thread_of(ProcessLook& look, pid_t id) {
    const auto found = std::find_if(look.threads.begin(), look.threads.end(),
                                    [id](const ThreadLook& thread) { return thread.id == id; });
    return found == look.threads.end() ? nullptr : &*found;
}

// Returns why there are no frames; empty: there are, or the process has no Python.
std::string add_python_frames(ProcessLook& look, const ProcessView& view, const MemoryReader& memory,
                              const std::vector<Mapping>& mappings) {
    const auto runtime = find_python(memory, mappings, fmt::format("/proc/{}/root", look.pid));
    if (!runtime) return {};
    std::vector<pid_t> ids;
    for (const ThreadView& thread : view.threads) ids.push_back(thread.id);
    PythonStacks stacks = read_python_stacks(memory, *runtime, ids);
    look.is_collecting = stacks.collecting;
    for (PythonThread& thread : stacks.threads) {
        if (ThreadLook* shown = thread_of(look, thread.id)) shown->frames = std::move(thread.frames);
    }
    return stacks.why_not;
}

// Says whether a thread that runs may be waiting for a device: its driver is there.
bool has_driver(const std::vector<Mapping>& mappings) {
    return std::any_of(mappings.begin(), mappings.end(), [](const Mapping& mapping) {
        return mapping.path.find("/libcuda.so") != std::string::npos;
    });
}

// Puts native frames before Python's, up to the interpreter's own.
void put_before(std::vector<Frame> native, std::vector<Frame>& frames) {
    if (!frames.empty()) {
        const auto interpreter = std::find_if(native.begin(), native.end(), [](const Frame& frame) {
            return frame.function.starts_with("_PyEval_");
        });
        native.erase(interpreter, native.end());
    }
    native.insert(native.end(), frames.begin(), frames.end());
    if (native.size() > kMaxFrames) native.resize(kMaxFrames);
    frames = std::move(native);
}

void add_native_frames(ProcessLook& look, const ProcessView& view, const MemoryReader& memory,
                       const std::vector<Mapping>& mappings, const LookTerms& terms) {
    // Asked: a thread with what its unwinding reads; both stay where they are.
    struct Asked {
        ThreadLook* thread;
        StoppedThread stopped;
        std::optional<StackCopy> copy;
    };
    std::list<Asked> asked;
    std::vector<NativeThread> threads;
    NativeScope scope;
    scope.pid = look.pid;
    scope.deadline = terms.deadline;
    for (const ThreadView& seen : view.threads) {
        ThreadLook* thread = thread_of(look, seen.id);
        if (thread == nullptr) continue;
        // Opening a file there would hang as the thread does.
        if (thread->wait.kind == WaitKind::file) scope.avoided_mounts.push_back(thread->wait.mount);
        NativeThread native{{seen.stack_pointer, seen.program_counter, {}}, &memory};
        if (seen.state == 'R') {
            auto stopped = copy_running_thread(look.pid, seen.id, mappings, memory);
            if (!stopped) continue;
            Asked& one = asked.emplace_back(Asked{thread, *std::move(stopped), {}});
            native = {one.stopped.registers, &one.copy.emplace(one.stopped, memory)};
        } else {
            asked.push_back({thread, {}, {}});
        }
        threads.push_back(native);
    }
    std::vector<NativeStack> stacks = native_stacks(scope, mappings, threads);
    auto stack = stacks.begin();
    for (const Asked& one : asked) {
        if (stack == stacks.end()) break;
        put_before(std::move((stack++)->frames), one.thread->frames);
    }
}

}  // namespace

ProcessLook look_at_process(pid_t pid, WaitReader& waits, const LookTerms& terms) {
    ProcessLook look;
    look.pid = pid;
    // The kernel's view first: it is of one moment, and what is read of memory belongs to it.
    const ProcessView view = read_process_view(pid);
    look.why_unreadable =
        view.ended() && view.why_unreadable.empty() ? to_reason(pid, ESRCH) : view.why_unreadable;
    const ThreadView* main = view.main_thread();
    if (view.ended() || main == nullptr) return look;
    const ProcessMemory memory(pid);
    const auto add = [&](const ThreadView& thread) {
        look.threads.push_back({thread.id, thread.name, waits.read(view, thread, memory), {}});
    };
    add(*main);
    for (const ThreadView& thread : view.threads) {
        if (terms.all_threads && thread.id != main->id) add(thread);
    }
    const auto mappings = read_mappings(pid);
    if (!mappings) {
        if (look.why_unreadable.empty()) look.why_unreadable = to_reason(pid, mappings.error().value());
        return look;
    }
    look.call = read_published_call(memory, *mappings);
    const std::string why = add_python_frames(look, view, memory, *mappings);
    if (look.why_unreadable.empty()) look.why_unreadable = why;
    const bool is_bare = look.threads.front().frames.empty();
    if (terms.native || is_bare || (main->state == 'R' && has_driver(*mappings)))
        add_native_frames(look, view, memory, *mappings, terms);
    return look;
}

bool may_be_rank(pid_t pid) {
    const auto mappings = read_mappings(pid);
    if (!mappings) return false;
    const bool has_python = std::any_of(mappings->begin(), mappings->end(), [](const Mapping& mapping) {
        return interpreter_name(mapping.path).has_value();
    });
    return has_python || publishes_calls(*mappings);
}

}  // namespace launch
}  // namespace ddprun
