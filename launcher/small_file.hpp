// Files small enough to be held whole: read with a bound, written so that a reader sees the old or the new
// one. Blocking, short; nothing here throws on what the file system does.
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace ddprun {

// The bytes of a regular file (those of /proc are), or why not: the system's error, EINVAL for something that
// is no regular file (a FIFO must not hold the launcher up), Errc::limit_exceeded for more than `max_bytes`.
boost::system::result<std::string> read_small_file(const std::filesystem::path& path, std::size_t max_bytes);

// Puts the bytes at `path`: into a new file beside it, which is synced to the disk and then takes the name,
// with the mode 0666 less the umask. A symbolic link is followed. What is no regular file (/dev/stdout, a
// FIFO that has a reader) is written to as it is. Leaves nothing behind when it fails.
boost::system::error_code replace_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace ddprun
