// The whole plan of a launch for people and for programs: what --explain prints, and --dry-run --json of the workers. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/ddprun/cluster_plan.hpp"
#include "apps/ddprun/explain/environment_change.hpp"
#include "apps/ddprun/explain/explained_start.hpp"
#include "apps/ddprun/explain/launch_values.hpp"

namespace ddprun::inline app {

struct ExplainedWorker {
    int local_rank = 0;
    std::optional<int> rank;           // nothing: known when the nodes have met
    std::string place;                 // WorkerPlan's
    CpuList cpus;                      // to which it is bound; empty: to none
    int memory_node = -1;              // as WorkerPlan has it
    std::vector<std::string> command;  // argv
    std::vector<EnvironmentChange> changes;
};

struct Explanation {
    std::string host;
    ClusterTable table;
    std::vector<ToldOption> options;
    std::vector<LaunchValue> values;         // these three are empty where it is refused
    std::vector<EnvironmentChange> changes;  // of all workers alike; what differs is in those
    std::vector<ExplainedWorker> workers;
    std::optional<ExplainedStart> start =
        {};  // in place of these three: this process starts agents elsewhere
    std::vector<std::string> remarks;
    std::string refusal;  // one line: why there is no job; empty: there is one
};

// `inherited` is the launcher's own environment.
std::vector<ExplainedWorker> explained_workers(const LaunchOptions& options, const Environment& inherited,
                                               const std::string& host);

std::string explanation_text(const Explanation& explanation);

// One object, see apps/ddprun/manual/files.md.
std::string explanation_json(const Explanation& explanation);

// --dry-run as JSON: an array of the workers as they are in that object.
std::string workers_json(const std::vector<ExplainedWorker>& workers);

}  // namespace ddprun::inline app
