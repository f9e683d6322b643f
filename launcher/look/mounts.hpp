// mount_of() and mount_of_number() tell on which file system a file is, by the text of /proc/PID/mountinfo.
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {
inline namespace launch {

// Returns a path of mountinfo without its escapes: a blank stands as \040 there.
std::string unescaped_place(std::string_view text);

// Returns "/data (nfs4, server:/export)": the mount that the path is on; empty if there is none. Any bytes.
std::string mount_of(std::string_view mountinfo, std::string_view path);

// Returns the same of the mount with this number, `mnt_id` in /proc/PID/fdinfo; empty if there is none.
std::string mount_of_number(std::string_view mountinfo, int number);

}  // namespace launch
}  // namespace ddprun
