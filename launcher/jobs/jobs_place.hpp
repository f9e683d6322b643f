// Where the folder of a user's detached jobs is: $XDG_RUNTIME_DIR/ddprun if the variable is set and its folder is the
// user's, else /tmp/ddprun-UID.
//
// Anybody can make that one before. Then the jobs are in /tmp/ddprun-UID-XXXXXX, and where that is stands in
// $XDG_CONFIG_HOME/ddprun/jobs-folder-HOST (~/.config): a home is often the same on many machines, and /tmp is not. That
// file is believed if it is the user's alone, and the folder likewise.
//
// Used by ddprun (makes) and ddpctl (looks); blocking, short.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

struct JobsPlace {
    Environment environment;
    uid_t uid = 0;  // the effective one
    std::filesystem::path shared = "/tmp";
};

// Where the jobs are; it need not be there. An empty path: somebody else has taken the name, and this user has never
// had a detached job beside that.
std::filesystem::path find_jobs_folder(const JobsPlace& place);

// That folder, or another one that is made and will be found. Throws Error if there is none that is ours alone: a real
// folder, no symbolic link, owned by the effective user, without any permission for others.
std::filesystem::path make_jobs_folder(const JobsPlace& place);

// Whether it is there; false if there is none. Throws Error if it is not ours alone.
bool is_private_folder(const std::filesystem::path& folder);

}  // namespace ddprun::inline launch
