// look_at_process() reads what the threads of one process do at this moment: what each waits for, and where
// its program is. The process neither helps nor is stopped.
//
// Everything may be missing: a process that ends meanwhile, or that this one may not read, gives what /proc
// tells and the reason. Nothing throws on what a process does.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "launcher/look/call_reader.hpp"
#include "launcher/look/frame.hpp"
#include "launcher/look/waits/wait_reader.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace launch {

struct LookTerms {
    bool all_threads = false;  // else the main thread alone
    // native: native frames within Python's, too. Without Python, and where the main thread runs beside a
    // device's driver, which it may be waiting for, there are native frames in any case.
    bool native = false;
    Deadline deadline = Deadline::max();  // of native frames
};

struct ThreadLook {
    pid_t id = 0;
    std::string name;           // at most 15 bytes, any bytes
    Wait wait;                  // as the kernel tells it
    std::vector<Frame> frames;  // the innermost first; empty: not known
};

struct ProcessLook {
    pid_t pid = 0;
    std::vector<ThreadLook> threads;  // the main thread first; empty: the process has ended
    std::optional<PublishedCall> call;
    bool is_collecting = false;  // Python's collector runs
    std::string why_unreadable;  // why frames, or all, are missing; empty: they are not
};

// Returns what is seen. `waits` is for this look, and the process is one of its scope.
ProcessLook look_at_process(pid_t pid, WaitReader& waits, const LookTerms& terms = {});

// Says whether the process runs a Python interpreter or uses our collectives, by what it has mapped.
bool may_be_rank(pid_t pid);

}  // namespace launch
}  // namespace ddprun
