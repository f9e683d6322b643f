// Descriptors tell of a child's end, so that one can wait for it beside sockets and without a signal handler.
#pragma once

#include <sys/types.h>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

// Returns a descriptor that is readable once this child of ours has ended, reaped or not; close-on-exec. It is a pidfd, or where the kernel knows none (before
// Linux 5.3; gVisor; a container's filter) the end of a pipe that a thread closes, which waits for the child without
// reaping it. Empty, with errno set, if there can be neither. Any thread.
OwnedDescriptor open_end_of_child(pid_t child);

// Returns a pidfd of any process; empty, with errno set, if there can be none.
OwnedDescriptor open_process(pid_t process);

// True if that errno of open_process() comes from a kernel that knows no pidfds.
bool means_no_pidfds(int error_number);

}  // namespace ddprun::inline launch
