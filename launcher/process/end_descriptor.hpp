// A descriptor by which one waits for a child's end: beside sockets, and without a signal handler.
#pragma once

#include <sys/types.h>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

// Readable once this child of ours has ended, reaped or not; close-on-exec. A pidfd, or where the kernel knows none (before
// Linux 5.3; gVisor; a container's filter) the end of a pipe that a thread closes, which waits for the child without
// reaping it. Empty, with errno set, if there can be neither. Any thread.
OwnedDescriptor open_end_of_child(pid_t child);

// A pidfd of any process; empty, with errno set, if there can be none.
OwnedDescriptor open_process(pid_t process);

// Whether that errno of open_process() is the kernel's that knows no pidfds.
bool means_no_pidfds(int error_number);

}  // namespace ddprun::inline launch
