// The system limits how many descriptors a process may have. A launcher with many workers and connections needs more than the 1024 that
// shells give for the sake of programs that use select(); it may help itself up to the hard limit. Its workers get
// what it was given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ddprun::inline launch {

// So many workers are started at once; these have two ends of each stream in the launcher.
inline constexpr int kStartsAtOnce = 64;

// These say how many descriptors a launcher needs for itself and so many workers: once they run, and while they start.
std::size_t least_descriptors(std::size_t workers) noexcept;
std::size_t launcher_descriptors(std::size_t workers) noexcept;

// Returns " (this process may have 1024, ulimit -n)" if the errno says that there are none left; else nothing.
std::string open_files_remedy(int error_number);

// Raises the soft limit of this process to the hard one. Returns what it was; 0 if nothing was changed.
std::uint64_t raise_open_files() noexcept;

// Sets the soft limit of this process; 0 changes nothing. Only calls that are allowed between fork and exec.
void restore_open_files(std::uint64_t soft_limit) noexcept;

}  // namespace ddprun::inline launch
