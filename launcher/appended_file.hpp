// An AppendedFile takes lines of the launcher's own. Each line is one write behind what is there, so that
// several nodes may share the file. What cannot be written is lost; that is said once.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

// AppendedFile: one thread at a time uses it.
class AppendedFile {
  public:
    AppendedFile(std::string flag, std::string path, OwnedDescriptor fd)
        : flag_(std::move(flag)), path_(std::move(path)), fd_(std::move(fd)) {}

    // Adds a line with its newline. Returns what is to be said when the first line is lost. Blocks as long as
    // a disk does.
    std::optional<std::string> append(std::string line);

    // Returns "cannot write PATH (FLAG): WHY; lines are lost there, the job goes on".
    std::string loss(const std::string& why) const;

  private:
    std::string flag_;
    std::string path_;
    OwnedDescriptor fd_;
    bool is_torn_ = false;  // the last line of the file lacks its end
    bool is_said_ = false;
};

// Makes the file, for its owner alone, or opens it; or returns what is wrong in one line that names `flag`.
std::variant<AppendedFile, std::string> open_appended_file(const std::string& flag, const std::string& path);

}  // namespace launch
}  // namespace ddprun
