// least_descriptors, open_end_of_child and the functions around them deal with a process's descriptors: how
// many there may be, how they are made, closed and waited for. A descriptor also tells the end of a child,
// without a signal handler.
//
// The system limits the number of descriptors. A launcher with many workers and connections needs more than
// the 1024 that shells give for the sake of programs that use select(). The launcher may raise its limit up
// to the hard one; its workers get the old one.
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

// kStartsAtOnce: workers that are started at once. Each has an end of two streams in the launcher, and a
// program that it may read.
inline constexpr int kStartsAtOnce = 64;

// Returns how many descriptors a launcher needs for itself and that many workers: least_descriptors once they
// run, launcher_descriptors while they start.
std::size_t least_descriptors(std::size_t workers) noexcept;
std::size_t launcher_descriptors(std::size_t workers) noexcept;

// Returns the limit that an errno is about, its value and how it is raised. For descriptors that is " (this
// process may have 1024, ulimit -n)", and likewise for processes and memory. Empty: no limit.
std::string limit_remedy(int error_number);

// Raises the soft limit of this process to the hard one. Returns the limit before; 0 if nothing was changed.
std::uint64_t raise_open_files() noexcept;

// Sets the soft limit of this process; 0 changes nothing. May be called between fork and exec.
void restore_open_files(std::uint64_t soft_limit) noexcept;

// Acts on every descriptor from `first` on, on old kernels (before Linux 5.9 and 5.11) by listing
// /proc/self/fd. All three functions may be called between fork and exec. The first two return 0 or an errno.
int close_on_exec_from(int first) noexcept;
int close_on_exec_by_listing(int first) noexcept;
void close_from(int first) noexcept;

// Closes the descriptors from `first` on that came to this program through exec: all others are
// close-on-exec. Where the system does not show /proc, nothing is closed.
void close_inherited_from(int first) noexcept;

// Makes these standard streams lead to /dev/null. May be called between fork and exec.
void lead_to_nowhere(std::initializer_list<int> streams) noexcept;

// Makes a pipe with ends that are close-on-exec and none of the standard streams. Returns false, with errno
// set, if that fails.
bool make_pipe(OwnedDescriptor& reader, OwnedDescriptor& writer);

// Makes a file in memory that has this text, to be read from its beginning; close-on-exec and none of the
// standard streams. Returns an empty one, with errno set, if that fails.
OwnedDescriptor make_text_file(const char* name, std::string_view text);

// Waits until the descriptor is ready for these events of poll(); false when the deadline has passed.
bool await_ready(int fd, short events, Deadline deadline);

// Returns a descriptor that is readable once this child of ours has ended, reaped or not; close-on-exec. Any
// thread. The descriptor is a pidfd where the kernel has them. Elsewhere (before Linux 5.3; gVisor; a
// container's filter) it is the end of a pipe that a thread closes, which waits for the child without reaping
// it. Empty, with errno set, if both fail.
OwnedDescriptor open_end_of_child(pid_t child);

// Returns a pidfd of any process; empty, with errno set, if that fails. Only ESRCH says something of the
// process: that it does not exist.
OwnedDescriptor open_process(pid_t process);

}  // namespace launch
}  // namespace ddprun
