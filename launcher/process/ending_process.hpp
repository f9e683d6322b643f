// Whether a process is about to end, while its parent cannot be told yet: the kernel may need a second to
// free the memory of a large one.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace ddprun::inline launch {

// True once it is certain that the process ends, and by what: it was killed, or has called exit; what signals
// it is sent from now on changes nothing. True also for one that is not there any more. `proc` is where /proc
// is.
bool is_ending(pid_t process, const std::filesystem::path& proc = "/proc");

}  // namespace ddprun::inline launch
