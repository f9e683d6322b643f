// read_python_stacks() reads what each thread of a Python program does, from memory alone: the interpreter
// neither helps nor waits, and needs not be able to.
//
// Nothing is stopped, so that a thread that runs may change its stack meanwhile: its stack is read once more,
// and told to be torn if it has changed again. The work is bounded, whatever is in the memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launcher/look/frame.hpp"
#include "launcher/look/memory_reader.hpp"
#include "launcher/look/python_runtime.hpp"

namespace ddprun {
inline namespace launch {

struct PythonThread {
    pid_t id = 0;               // as the kernel numbers threads; 0: not known
    std::vector<Frame> frames;  // the innermost first
    bool is_cut = false;        // there are more than kMaxFrames
    // is_torn: it changed while it was read, or its memory made no sense: frames may be missing, or of
    // another moment.
    bool is_torn = false;
    bool has_lock = false;  // the interpreter's: the others wait for this thread, or are outside of Python
};

struct PythonStacks {
    std::string version;      // "3.12.1"
    std::string why_not;      // why there is nothing more; empty: there is
    bool collecting = false;  // the collector runs; told by 3.13 and later
    bool is_cut = false;  // more threads than kMaxPythonThreads, or more to read than BoundedReader allows
    std::vector<PythonThread> threads;  // the youngest first
};

// kMaxPythonThreads, kMaxInterpreters: what is behind them is left out.
inline constexpr std::size_t kMaxPythonThreads = 1000;
inline constexpr std::size_t kMaxInterpreters = 64;

// Reads the stacks of the interpreter that find_python() has found. `threads`: the numbers of the process's
// threads, from which those of Python before 3.11 are told.
PythonStacks read_python_stacks(const MemoryReader& memory, const PythonRuntime& runtime,
                                std::span<const pid_t> threads);

}  // namespace launch
}  // namespace ddprun
