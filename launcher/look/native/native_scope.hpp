// NativeScope is the process that native_stacks() looks at, and what that may take.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace launch {

struct NativeScope {
    pid_t pid = 0;
    Deadline deadline;                        // looked at between frames, words of memory and files
    std::vector<std::string> avoided_mounts;  // as mount_of() has them: no file below one is opened
    std::string proc = "/proc";
};

}  // namespace launch
}  // namespace ddprun
