// A JobPart is what the cluster's environment, or the starter of a job on several hosts, adds to what the
// user has said. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/ddprun/options/command_line.hpp"
#include "launcher/cluster/cluster_table.hpp"

namespace ddprun {
inline namespace app {

// An Allocation has the hosts of an allocation that this process is in, where it starts their agents without
// being asked.
struct Allocation {
    std::vector<ListedHost> hosts;
    std::string source;            // the variable that names them
    std::optional<int> own_place;  // of the host for which this process starts the agent itself
    std::string reached_by;        // the remote shell, unless `rsh` is said
    std::string run_id;            // of the scheduler's job; empty: not known, or the user's counts
    bool by_gpus = false;          // a worker for each GPU of a host, else as many as the host has slots
};

// JobPart: nothing stands in a member that the user has said, or that nothing tells.
struct JobPart {
    std::optional<Allocation> allocation;
    std::optional<int> nnodes, node_rank;
    std::optional<std::string> master_addr, run_id;
    std::optional<std::uint16_t> master_port;
    bool port_derived = false;  // master_port is of the job's id, and may be the next one if that is taken
    bool listen_any = false;
    HostList host_list;          // LaunchOptions'
    bool shares_screen = false;  // LaunchOptions'
    bool is_derived = false;     // something about several nodes, worth a line (derived_line)
    std::optional<WorkerCount> workers;
    std::string gpus_told_by;  // the variable that says how many GPUs a scheduler has given here; empty: none
};

// Returns how strongly an option from `origin` is believed.
Belief belief_of(const OptionOrigin& origin);

// Derives the values of the job from the environment and the command line. The table may hold a refusal.
ClusterTable table_of(const Said& said, const ClusterView& view);

// Returns the port that the environment tells; nothing where the user has said one, or where none is told.
// Throws UsageError.
std::optional<std::uint16_t> derived_port(const ClusterTable& table);

// Returns what the environment adds, by its table. Throws UsageError where it contradicts what was said.
JobPart part_of_cluster(const Said& said, const ClusterTable& table);

// Returns what the starter adds, for an agent that it has started.
JobPart part_of_starter(const Said& said);

}  // namespace app
}  // namespace ddprun
