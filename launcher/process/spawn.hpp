// The fork of a worker: a child that borrows the memory of its parent until it is another program, as vfork
// makes one, because a copy of the page tables costs more than all the rest of a start. Where the kernel has
// clone3 (Linux 5.5), the child is born without the signal handlers of the parent, and with the open folder
// of a cgroup v2 (Linux 5.7) as a member of that: being moved later would cost every worker milliseconds.
#pragma once

#include "launcher/process/child_setup.hpp"

namespace ddprun::inline launch {

struct Spawned {
    pid_t pid = -1;
    int error_number = 0;  // where there is no child
    bool in_cgroup = false;
};

// Returns when the child runs its program or has given up, with all signals of the calling thread blocked.
// `cgroup` is -1 for none; where the kernel does not permit it, the child starts without.
Spawned spawn(ChildPlan plan, int cgroup);

// The signals that this process ignores, as ChildPlan::signals_to_reset has them.
std::uint64_t ignored_signals();

}  // namespace ddprun::inline launch
