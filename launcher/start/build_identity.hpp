// These tell which build of ddprun this process runs, and where its file is.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::inline launch {

// The version and the linker's id of the program; letters, digits, '.' and '-'. Another one for every other build.
std::string build_identity();

// The file that this process runs, as it may be named on other hosts; empty where it is not there any more.
std::string own_program();

// Returns a name by which this process can start itself again, removed or not.
std::string own_executable();

// The file itself, whatever has its name now. No bytes where the system refuses.
std::uint64_t own_program_size();
std::string own_program_bytes();

}  // namespace ddprun::inline launch
