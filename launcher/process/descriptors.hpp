// Descriptors of a process: how many it may have, how they are made and closed, and how one waits for them,
// also for the end of a child, beside sockets and without a signal handler.
//
// The system limits how many there may be. A launcher with many workers and connections needs more than the
// 1024 that shells give for the sake of programs that use select(); it may help itself up to the hard limit.
// Its workers get what it was given.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

// This many workers are started at once; each has its end of two streams in the launcher, and a program that
// it may read.
inline constexpr int kStartsAtOnce = 64;

// These say how many descriptors a launcher needs for itself and so many workers: once they run, and while
// they start.
std::size_t least_descriptors(std::size_t workers) noexcept;
std::size_t launcher_descriptors(std::size_t workers) noexcept;

// Returns which limit an errno speaks of, what it is and how it is raised, such as " (this process may have
// 1024, ulimit -n)" of descriptors, and likewise of processes and of memory; empty: of none.
std::string limit_remedy(int error_number);

// Raises the soft limit of this process to the hard one. Returns what it was; 0 if nothing was changed.
std::uint64_t raise_open_files() noexcept;

// Sets the soft limit of this process; 0 changes nothing. Only calls that are allowed between fork and exec.
void restore_open_files(std::uint64_t soft_limit) noexcept;

// These act on every descriptor from `first` on, on old kernels (before Linux 5.9 and 5.11) by listing
// /proc/self/fd. They may be called between fork and exec. The first two return 0 or an errno.
int close_on_exec_from(int first) noexcept;
int close_on_exec_by_listing(int first) noexcept;
void close_from(int first) noexcept;

// Closes those from `first` on that came to this program through exec: all others are close-on-exec. On a
// system that does not show /proc nothing is closed.
void close_inherited_from(int first) noexcept;

// Has these standard streams lead to /dev/null. It may be called between fork and exec.
void lead_to_nowhere(std::initializer_list<int> streams) noexcept;

// Makes a pipe whose ends are close-on-exec and none of the standard streams; false, with errno set, if there
// can be none.
bool make_pipe(OwnedDescriptor& reader, OwnedDescriptor& writer);

// Makes a file in memory that has this text, to be read from its beginning; empty, with errno set, if there
// can be none. Close-on-exec and none of the standard streams.
OwnedDescriptor make_text_file(const char* name, std::string_view text);

// Waits until the descriptor is ready for these events of poll(); false when the deadline has passed.
bool await_ready(int fd, short events, Deadline deadline);

// Returns a descriptor that is readable once this child of ours has ended, reaped or not; close-on-exec. It
// is a pidfd, or where the kernel knows none (before Linux 5.3; gVisor; a container's filter) the end of a
// pipe that a thread closes, which waits for the child without reaping it. Empty, with errno set, if there
// can be neither. Any thread.
OwnedDescriptor open_end_of_child(pid_t child);

// Returns a pidfd of any process; empty, with errno set, if there can be none. Only ESRCH says something of
// the process: that there is none.
OwnedDescriptor open_process(pid_t process);

}  // namespace launch
}  // namespace ddprun
