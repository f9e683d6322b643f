// A JobPlan is what was said, with what the cluster's environment or a starter adds: the nodes of the job and
// this node's place among them, where the user has not named them. Pure.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "apps/ddprun/plan/job_part.hpp"

namespace ddprun {
inline namespace app {

// JobPlan: the members of Said are merged with `part`.
struct JobPlan : Said {
    explicit JobPlan(const Said& said, JobPart added = {});

    bool starts_hosts() const { return start.is_asked() || part.allocation; }

    JobPart part;
    ClusterTable table;  // where all values of `part` come from
    // decided_by: the sign in the environment that has decided an option's value where it was not set, by the
    // option's long name.
    std::map<std::string, std::string> decided_by;
    std::string master_source;                        // LaunchOptions'
    std::shared_ptr<const std::string> read_program;  // LaunchOptions'
};

// Plans the job. Throws UsageError where the environment speaks of several nodes or tasks, and no job can be
// made of that. Hosts that the user names are stronger than whatever the environment tells.
JobPlan plan_job(const Said& said, ClusterTable table);
JobPlan plan_job(const Said& said, const ClusterView& view);

// Returns `message`, which begins with an option, with the option as the user has typed it, or with what has
// decided the option's value.
std::string as_said(const JobPlan& job, const std::string& message);

}  // namespace app
}  // namespace ddprun
