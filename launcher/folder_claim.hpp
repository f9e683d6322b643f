// A FolderClaim says that the launcher that owns a folder lives. The kernel takes the claim back when the
// last process that holds it has ended, for whatever reason.
//
// The claim is a lock on the folder itself: it needs no file, and stays when the folder gets another name.
// Unlike a pid, it means the same in every PID namespace (two containers that share /tmp). There are two
// locks: one that claim_on() can look at without taking it, and one that keeps cleaners of temporary files
// away. Only a file system of this machine can tell: on others (NFS, FUSE) a launcher elsewhere would not be
// seen.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

// A FolderClaim is made by a launcher for a folder of its own. The claim is held as long as this object
// lives, and by children that did not exec or close it.
class FolderClaim {
  public:
    FolderClaim() = default;  // claims nothing
    // Claims `folder`. A folder that cannot be claimed stays without a claim; its age decides then.
    explicit FolderClaim(const std::filesystem::path& folder);

  private:
    OwnedDescriptor lock_;
};

enum class ClaimState {
    held,     // the folder's launcher lives
    free,     // that launcher has ended, or has not claimed the folder yet, or is of a version that does not
    unknown,  // cannot be told here
};

// Looks at the claim without taking anything, so that no other process is disturbed. What is no folder, or
// not ours to open, is unknown.
ClaimState claim_on(const std::filesystem::path& folder);

// kLocalCacheName: the name of a LocalCache in such a folder.
inline constexpr char kLocalCacheName[] = "local_cache";

struct SweepLimits {
    // min_age: younger folders stay, since the user may still want to read the error files.
    std::chrono::hours min_age{24};
    // bytes_of_list: how much of the list of folders is read, some 200 names. The limits from here on keep a
    // huge folder, or much that was left, from holding a launcher up; the next launcher goes on.
    std::size_t bytes_of_list = 8 * 1024;
    std::size_t max_folders_seen = 32;
    std::size_t max_folders_removed = 8;
    // max_entries_inside: a folder that holds more is not looked through.
    std::size_t max_entries_inside = 64;
};

// Removes the ddprun_XXXXXX folders (launcher/output/log_file.hpp) of this user that launchers left among the
// temporary files, because they were killed or their workers wrote error files. A folder is removed if its
// launcher has ended and if it holds nothing but error files, empty folders and a LocalCache. A folder stays
// if it holds a log, or anything else, or if it cannot be told whether its launcher has ended. Called by a
// launcher that had a folder there, at its end. Blocking, short.
void sweep_temporary_folders(const std::filesystem::path& temporary, const SweepLimits& limits = {});

}  // namespace launch
}  // namespace ddprun
