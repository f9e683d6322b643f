// JobsPlace says where a user's jobs have their folders, and other users do not see them. Used by ddprun
// (writes) and ddpctl (reads); blocking, short.
//
// The folders are in $DDPRUN_JOBS_DIR/ddprun, else in /tmp/ddprun-UID. Any user can make the latter before;
// then the jobs are in a folder /tmp/ddprun-UID-XXXXXX, which is known by its owner. Unlike $XDG_RUNTIME_DIR,
// neither folder goes with the session that has started a job, and every shell of the user's finds it:
// cron's, su's and sudo's, too.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

struct JobsPlace {
    Environment environment;
    uid_t uid = 0;  // the effective one
    std::filesystem::path shared = "/tmp";
};

// kJobsVariable names where the user wants the jobs folder.
inline constexpr char kJobsVariable[] = "DDPRUN_JOBS_DIR";

// Returns where the jobs are; the folder need not be there. An empty path: another user has taken the name,
// and this user has never had a detached job beside that.
std::filesystem::path find_jobs_folder(const JobsPlace& place);

// Returns that folder, or another one that is made and will be found. Throws Error if there is none that is
// ours alone: a real folder, no symbolic link, owned by the effective user, without any permission for
// others.
std::filesystem::path make_jobs_folder(const JobsPlace& place);

// Returns whether the folder is there. Throws Error if it is not ours alone, or if another user can lead its
// path elsewhere (changeable_by_others).
bool is_private_folder(const std::filesystem::path& folder);

// Returns the folders in a folder, without links; none where it cannot be read.
std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder);

// Returns the path in quotes, for a line on the terminal.
std::string shown_path(const std::filesystem::path& path);

// Throws Error of errno for a folder of a job, or one of jobs, that cannot be made: `what`, in words.
[[noreturn]] void fail_making(const std::string& what);

}  // namespace launch
}  // namespace ddprun
