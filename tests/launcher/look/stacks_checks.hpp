// check_bounds() says what stacks are at most, whatever they were read from.
#pragma once

#include "launcher/look/python_frames.hpp"
#include "launcher/look/python_objects.hpp"
#include "rendezvous/base/check.hpp"

namespace ddprun {

inline void check_bounds(const PythonStacks& stacks) {
    check(stacks.threads.size() <= kMaxPythonThreads, "not too many threads");
    check(stacks.threads.empty() || stacks.why_not.empty(), "stacks or a reason");
    for (const auto& thread : stacks.threads) {
        check(thread.frames.size() <= kMaxFrames, "not too many frames");
        for (const auto& frame : thread.frames) {
            check(frame.function.size() <= PythonObjects::kMaxName, "no longer name of a function");
            check(frame.file.size() <= PythonObjects::kMaxName, "no longer name of a file");
            check(frame.line >= 0 && !frame.native, "a line of Python");
        }
    }
}

}  // namespace ddprun
