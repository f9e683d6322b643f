// file_state() tells whether a file has changed, for --progress-file.
#pragma once

#include <string>

namespace ddprun {
inline namespace launch {

// Returns a text that changes when the file does; empty for a file that is not there.
std::string file_state(const std::string& path);

}  // namespace launch
}  // namespace ddprun
