// FolderClaim: says that the launcher that owns a folder lives. The kernel takes it back when the last
// process that holds it has ended, however that came about.
//
// It is a lock on the folder itself, so it needs no file, stays when the folder gets another name, and means
// the same in every PID namespace (two containers that share /tmp), where a pid does not. Only a file system
// of this machine can tell: on others (NFS, FUSE) a launcher elsewhere would not be seen.
#pragma once

#include <filesystem>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

// Made by a launcher for a folder of its own; held as long as this lives, and by children that did not exec
// or close it.
class FolderClaim {
  public:
    FolderClaim() = default;  // claims nothing
    // A folder that cannot be claimed stays without; then its age decides.
    explicit FolderClaim(const std::filesystem::path& folder);

  private:
    OwnedDescriptor lock_;
};

enum class ClaimState {
    held,     // its launcher lives
    free,     // it has ended, or has not claimed the folder yet, or is of a version that does not
    unknown,  // nobody can tell here
};

// Looks without taking anything, so it disturbs nobody. What is no folder, or not ours to open: unknown.
ClaimState claim_on(const std::filesystem::path& folder);

}  // namespace ddprun::inline launch
