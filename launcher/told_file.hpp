// ToldFiles are files that the user has named: a regular one, or what a shell makes of <(…), a pipe, which
// can be read once. Blocking.
#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

namespace ddprun {
inline namespace launch {

// kToldFilePatience: how long the program behind a pipe may take to say all.
inline constexpr std::chrono::seconds kToldFilePatience{60};

// Returns all that is in the file of this name, or why not: EISDIR for a folder,
// ETIMEDOUT for a pipe that is silent, Errc::limit_exceeded for more than `max_bytes`.
boost::system::result<std::string> read_told_file(const std::string& path, std::size_t max_bytes,
                                                  std::chrono::milliseconds patience = kToldFilePatience);

// why_untold says in words why a file was not read, with the limit: "has over 65536 bytes".
std::string why_untold(const boost::system::error_code& error, std::size_t max_bytes);

// ToldFiles are read once each, however often they are asked for: a pipe has said all it had. Copies share
// what was read.
class ToldFiles {
  public:
    using Text = boost::system::result<std::string>;

    Text read(const std::string& path, std::size_t max_bytes) const;
    // Reads from where this process's descriptor stands. A user may type the text, so that it is waited for.
    Text read(int descriptor, std::size_t max_bytes) const;

  private:
    std::shared_ptr<std::map<std::string, Text>> texts_ = std::make_shared<std::map<std::string, Text>>();
};

}  // namespace launch
}  // namespace ddprun
