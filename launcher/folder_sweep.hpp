// Removes what launchers that were killed, or whose workers wrote error files, have left among the temporary files:
// their ddprun_XXXXXX folders (launcher/output/log_file.hpp). Called by a launcher that had a folder there, at its
// end; blocking, short.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>

namespace ddprun::inline launch {

// A LocalCache is called so in such a folder.
inline constexpr char kLocalCacheName[] = "local_cache";

struct SweepLimits {
    // Younger ones stay: somebody may still want to read the error files.
    std::chrono::hours min_age{24};
    // So that neither a huge folder nor much that was left holds anybody up; the next launcher goes on. Of
    // the folder's list only so much is read, some 200 names.
    std::size_t bytes_of_list = 8 * 1024;
    std::size_t max_folders_seen = 32;
    std::size_t max_folders_removed = 8;
    // A folder that holds more is not looked through.
    std::size_t max_entries_inside = 64;
};

// Removes folders of this user whose launcher has ended and that hold nothing but error files, empty
// folders and a LocalCache. One that holds a log, or anything else, or whose launcher cannot be judged, stays.
void sweep_temporary_folders(const std::filesystem::path& temporary, const SweepLimits& limits = {});

}  // namespace ddprun::inline launch
