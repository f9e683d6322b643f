// How many descriptors a process may have. A launcher with many workers and connections needs more than the 1024 that
// shells give for the sake of programs that use select(); it may help itself up to the hard limit. Its workers get
// what it was given.
#pragma once

#include <cstdint>

namespace ddprun {

// Raises the soft limit of this process to the hard one. Returns what it was; 0 if nothing was changed.
std::uint64_t raise_open_files() noexcept;

// Sets the soft limit of this process; 0 changes nothing. Only calls that are allowed between fork and exec.
void restore_open_files(std::uint64_t soft_limit) noexcept;

}  // namespace ddprun
