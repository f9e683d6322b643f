// native_stacks() unwinds the native calls of one process's threads, by the unwind tables in its program and
// libraries and by its memory. The process neither helps nor is stopped.
//
// The work is libdw's, which no caller sees. Names come from the symbols of the files themselves, also where
// a file was removed, or lies in another mount namespace, as far as /proc shows it; no debug information is
// looked for, here or at a server.
//
// Opening a file may block as long as its file system does: threads that wait for one name it (Wait.mount),
// and a caller leaves such out (NativeScope::avoided_mounts), or calls this in a thread that it may leave
// behind. Nothing else blocks. Whatever the memory holds, there are at most kMaxFrames frames, and no more
// than the deadline allows.
#pragma once

#include <span>
#include <vector>

#include "launcher/look/frame.hpp"
#include "launcher/look/mappings.hpp"
#include "launcher/look/memory_reader.hpp"
#include "launcher/look/native/native_scope.hpp"
#include "launcher/look/native/thread_registers.hpp"

namespace ddprun {
inline namespace launch {

struct NativeThread {
    ThreadRegisters registers;
    const MemoryReader* memory = nullptr;
};

struct NativeStack {
    std::vector<Frame> frames;  // from the innermost on
    bool is_whole = false;      // ends where the thread began
};

// Returns the stack of each thread. A thread of which nothing can be told has no frames. Each call reads the
// files anew, once for all its threads.
std::vector<NativeStack> native_stacks(const NativeScope& scope, const std::vector<Mapping>& mappings,
                                       std::span<const NativeThread> threads);

}  // namespace launch
}  // namespace ddprun
