// What --explain and --dry-run show of a start on several hosts: by what each is reached, and the agent's command there. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/ddprun/cluster_plan.hpp"
#include "apps/ddprun/job_start.hpp"

namespace ddprun::inline app {

struct ExplainedAgent {
    int node = 0;
    std::string host;
    bool is_here = false;        // this machine, which nothing has to reach
    std::optional<int> workers;  // as the list of hosts says; else the command does, or …
    std::optional<int> slots;    // … there is one for each GPU, or so many on a host without
    std::vector<std::string> command;
};

struct ExplainedStart {
    std::string decided;             // start_line()
    std::vector<std::string> shell;  // the remote shell's words, for HOST
    std::vector<ExplainedAgent> agents;
};

ExplainedStart explained_start(const CommandLine& line, const StarterOptions& options);

// Where the command line names hosts, the table of what is around counts no nodes: what it assumes of one is taken out …
void forget_one_node(ClusterTable& table);

// … and what follows from the hosts is told in its place.
void tell_hosts(ClusterTable& table, const CommandLine& line, const StarterOptions& options);

// A line for each host.
std::string start_text(const ExplainedStart& start);

// An array of the hosts, as they are in the object of explanation.hpp.
std::string start_json(const ExplainedStart& start);

}  // namespace ddprun::inline app
