// FolderClaim: says that the launcher that owns a folder lives. The kernel takes it back when the last
// process that holds it has ended, however that came about.
//
// It is a lock on the folder itself, so it needs no file, stays when the folder gets another name, and means
// the same in every PID namespace (two containers that share /tmp), where a pid does not. There are two
// locks, one that can be looked at without taking it (claim_on), and one that keeps cleaners of temporary
// files away. Only a file system of this machine can tell: on others (NFS, FUSE) a launcher elsewhere would
// not be seen.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

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

// Removes what launchers that were killed, or whose workers wrote error files, have left among the temporary
// files: their ddprun_XXXXXX folders (launcher/output/log_file.hpp). Called by a launcher that had a folder
// there, at its end; blocking, short.

// A LocalCache is called so in such a folder.
inline constexpr char kLocalCacheName[] = "local_cache";

struct SweepLimits {
    // Younger ones stay: somebody may still want to read the error files.
    std::chrono::hours min_age{24};
    // These limits keep a huge folder, or much that was left, from holding anybody up; the next launcher goes
    // on. Of the folder's list only so much is read, some 200 names.
    std::size_t bytes_of_list = 8 * 1024;
    std::size_t max_folders_seen = 32;
    std::size_t max_folders_removed = 8;
    // A folder that holds more is not looked through.
    std::size_t max_entries_inside = 64;
};

// Removes folders of this user whose launcher has ended and that hold nothing but error files, empty folders
// and a LocalCache. One that holds a log, or anything else, or whose launcher cannot be judged, stays.
void sweep_temporary_folders(const std::filesystem::path& temporary, const SweepLimits& limits = {});

}  // namespace launch
}  // namespace ddprun
