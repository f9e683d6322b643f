// An Explanation is the whole plan of a launch for people and for programs: what --explain prints, and
// --dry-run --json of the workers. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/ddprun/modes/launch_values.hpp"
#include "apps/ddprun/modes/worker_environment.hpp"
#include "apps/ddprun/plan/job_start.hpp"
#include "launcher/agent/launch_options.hpp"

namespace ddprun {
inline namespace app {

// An ExplainedAgent is an agent that a start on several hosts would start.
struct ExplainedAgent {
    int node = 0;
    std::string host;
    bool here = false;           // this machine, which nothing has to reach
    std::optional<int> workers;  // as the list of hosts says; else the command does, or …
    std::optional<int> slots;    // … there is one for each GPU, or so many on a host without
    std::vector<std::string> command;
};
BOOST_DESCRIBE_STRUCT(ExplainedAgent, (), (node, host, here, workers, slots, command))

struct ExplainedStart {
    std::string decided;             // start_line()
    std::vector<std::string> shell;  // the remote shell's words, for HOST
    std::vector<ExplainedAgent> agents;
};
BOOST_DESCRIBE_STRUCT(ExplainedStart, (), (decided, shell, agents))

// Takes out of the table what it assumes of one node, for a command line that names hosts.
void forget_one_node(ClusterTable& table);

// Adds to the table, in place of that, what follows from the hosts.
void tell_hosts(ClusterTable& table, const Said& said, const StarterOptions& options);

// Writes a line for each worker of this node: where it would run, and what. Ranks are shown where the node is
// alone; of several nodes none knows before they meet how many workers the others have.
std::string dry_run_text(const LaunchOptions& options, const std::string& host);

struct ExplainedWorker {
    int local_rank = 0;
    std::optional<int> rank;  // nothing: known when the nodes have met
    std::string place;        // WorkerPlan's
    CpuList cpus;             // to which the worker is bound; empty: to none
    std::optional<int> memory_node;
    std::vector<std::string> command;  // argv
    std::vector<EnvironmentChange> environment;
};
BOOST_DESCRIBE_STRUCT(ExplainedWorker, (), (local_rank, rank, place, cpus, memory_node, command, environment))

struct Explanation {
    std::string host;
    ClusterTable table;
    std::vector<ToldOption> options;
    std::vector<LaunchValue> values;         // empty, as are changes and workers, where the launch is refused
    std::vector<EnvironmentChange> changes;  // of all workers alike; the others are in `workers`
    std::vector<ExplainedWorker> workers;
    std::optional<ExplainedStart> start =
        {};  // in place of values, changes and workers: this process starts agents elsewhere
    std::vector<std::string> remarks;
    std::string refusal;  // one line: why there is no job; empty: there is one
};

// Returns what --explain says of each worker. `inherited` is the launcher's own environment.
std::vector<ExplainedWorker> explained_workers(const LaunchOptions& options, const Environment& inherited,
                                               const std::string& host);

std::string explanation_text(const Explanation& explanation);

// Writes one object, see apps/ddprun/manual/files.md.
std::string explanation_json(const Explanation& explanation);

// Writes --dry-run as JSON: an array of the workers as they are in that object.
std::string workers_json(const std::vector<ExplainedWorker>& workers);

}  // namespace app
}  // namespace ddprun
