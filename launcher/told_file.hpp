// A file that the user has named: a regular one, or what a shell makes of <(…), a pipe, which can be read once. Blocking.
#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstddef>
#include <string>

namespace ddprun::inline launch {

// The program behind a pipe has so long to say all.
inline constexpr std::chrono::seconds kToldFilePatience{60};

// Returns all that is in it, or says why not: EISDIR for a folder, ETIMEDOUT for a pipe that is silent, Errc::limit_exceeded for more
// than `max_bytes`.
boost::system::result<std::string> read_told_file(const std::string& path, std::size_t max_bytes,
                                                  std::chrono::milliseconds patience = kToldFilePatience);

}  // namespace ddprun::inline launch
