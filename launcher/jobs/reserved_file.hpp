// A ReservedFile is a small file for which room on the disk is taken before it is needed, so that a disk that
// is full by then does not matter. The file has another name until it is written. Blocks, shortly; one
// thread.
#pragma once

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <filesystem>
#include <string_view>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

class ReservedFile {
  public:
    // Makes the file, for its owner alone, with room for so many bytes. Throws Error, and leaves nothing
    // then.
    ReservedFile(const std::filesystem::path& path, std::size_t bytes);

    // Takes room for so many bytes in all, if there is that much; else the file stays as it is.
    void grow(std::size_t bytes);

    // Writes the text, syncs it to the disk and gives the file, which is at `now`, its name. More text than
    // there is room for may find some.
    boost::system::error_code become(const std::filesystem::path& now, const std::filesystem::path& name,
                                     std::string_view text);

  private:
    OwnedDescriptor file_;
};

}  // namespace launch
}  // namespace ddprun
