// make_known_job() makes every job that runs workers on this node known to ddpctl there, by a folder of its
// own (launcher/jobs/job_folder.hpp). The folder has a record and the socket at which the launcher answers
// (launcher/view/).
//
// A detached job has its folder from the start, since its output is there. The job tells the launcher's
// parent when its workers run, and leaves a result. If any of this cannot be made, the job ends. If the
// workers never run, the folder is removed; if something else removes the folder later, it is made anew. A
// job in the foreground has a folder only while its workers run, from a moment after they began. Where no
// folder can be made, the job runs all the same, and ddpctl does not know of it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "launcher/agent/feature.hpp"
#include "launcher/jobs/reserved_file.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

// DetachedStart: what the launcher of a detached job has before there is an agent.
struct DetachedStart {
    std::filesystem::path folder;      // as make_starting_folder made it; empty: the job is not detached
    std::optional<ReservedFile> room;  // reserve_result()'s
    OwnedDescriptor parent;            // detach()'s
};

struct KnownJobOptions {
    // detached: filled in by the process that goes on as the launcher of a detached job. All copies of these
    // options share it, the feature's among them, which has it before there is an agent.
    std::shared_ptr<DetachedStart> detached;
};

// Makes room for the start of a detached job.
std::optional<std::string> open_known_job(FeatureOptions& options, const EarlyFacts& facts);

// Takes the room of the job's result in its folder, before the shell is let go. Throws Error.
ReservedFile reserve_result(const std::filesystem::path& folder);

std::unique_ptr<Feature> make_known_job(const FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
