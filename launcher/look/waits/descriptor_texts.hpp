// DescriptorInfo and holder_of_file_lock() read what /proc tells of descriptors and of locks of files. Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace launch {

// kMaxWatched: descriptors that an epoll descriptor is believed to watch.
inline constexpr std::size_t kMaxWatched = 1024;

// DescriptorInfo is the text of /proc/PID/fdinfo/N, as far as it matters here.
struct DescriptorInfo {
    std::optional<int> mount;            // its number in mountinfo
    std::optional<std::uint64_t> inode;  // from Linux 5.14 on
    std::optional<pid_t> process;        // of a pidfd
    std::vector<int> watched;            // by an epoll descriptor
};
DescriptorInfo parse_descriptor_info(std::string_view text);

// Returns which process has the lock that this one waits for, by the text of /proc/locks: 0 if it waits for
// none there, or the holder is hidden. A wait for a lock of an open file (F_OFD_SETLKW), which names no
// process, is known by the file's inode.
pid_t holder_of_file_lock(std::string_view locks, pid_t waiter, std::optional<std::uint64_t> inode = {});

}  // namespace launch
}  // namespace ddprun
