// pthread_ids() tells which threads of the kernel a process's pthread_t are. Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "launcher/look/memory_reader.hpp"

namespace ddprun {
inline namespace launch {

// Returns the number of each thread, 0 for one that is not known. A pthread_t is the address of a structure
// in which the C library keeps the number, always at the same place: where all of them have different ones of
// `threads`.
std::vector<pid_t> pthread_ids(const MemoryReader& memory, std::span<const std::uintptr_t> pthreads,
                               std::span<const pid_t> threads);

}  // namespace launch
}  // namespace ddprun
