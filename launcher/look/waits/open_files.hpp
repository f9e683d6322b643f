// OpenFiles says which of some processes have a socket or a pipe open, by the links in /proc/PID/fd.
//
// Read once for a look. A process that ends meanwhile, or that this one may not look at, has none.
#pragma once

#include <sys/types.h>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace launch {

struct OpenFile {
    pid_t process = 0;
    bool reads = false;  // opened so
    bool writes = false;
};

// kMaxDescriptors: of one process; what is behind them is left out.
inline constexpr std::size_t kMaxDescriptors = 16'384;

// Returns the link of a descriptor: "/data/x", "socket:[12]", "pipe:[12]"; empty if there is none. The link
// is the kernel's own, and waits for no file system.
std::string link_of(pid_t process, int descriptor, const std::string& proc = "/proc");

class OpenFiles {
  public:
    OpenFiles() = default;
    // Looks at the processes in their order, until the deadline at most.
    static OpenFiles read(std::span<const pid_t> processes, Deadline deadline,
                          const std::string& proc = "/proc");

    // Returns which processes have the link's file open.
    std::vector<OpenFile> with(std::string_view link) const;

  private:
    std::multimap<std::string, OpenFile, std::less<>> files_;
};

}  // namespace launch
}  // namespace ddprun
