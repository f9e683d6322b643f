// A ClusterTable says which job this process is in and which node of the job this machine is. Each value
// stands with its source, and with the rivals that said otherwise. Pure.
//
// The first hit counts for each value, in the order of Belief:
//   1  what the user says: command line, DDPRUN_*, PET_*, configuration file
//   2  the process launcher that started this process: Flux, PALS, Open MPI, …, a Slurm step. Of several, the
//      innermost with facts that fit this machine
//   3  operators and platforms that tell each node its number
//   4  MASTER_ADDR, RANK and WORLD_SIZE, where it can be told whether they count nodes or processes
//   5  an allocation; in one of several nodes this process starts the other agents, where it can reach them
//   6  one node
// The count of the nodes, this node's number and the place where they meet always come from a single family.
// A weaker family may add only the place, and only where its list agrees with that count and number. Unknown
// values of a job of several nodes are refused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/family.hpp"
#include "rendezvous/net/port_range.hpp"

namespace ddprun {
inline namespace launch {

enum class Situation {
    alone,            // one node, whatever started it
    agent_per_node,   // a launcher or a platform starts one process on each node
    process_per_gpu,  // several processes were started on a node, each for a worker's place
    allocation,       // one process, while the rest of the allocation is idle
};

struct SaidFact {
    Fact fact = Fact::nnodes;
    Claim claim;
};

// kDerivedPortRange: ports that are derived from a job's identity, unless the user names others. The range
// lies below the kernel's ports for clients (ip_local_port_range).
inline constexpr PortRange kDerivedPortRange{20'000, 28'999};
// kDerivedPorts: how many ports one job may try, from its own one upwards, where that is taken. A small range
// allows fewer, since other listeners need ports, too.
inline constexpr int kDerivedPorts = 8;
constexpr int derived_ports(const PortRange& range) { return std::clamp(range.size() / 4, 1, kDerivedPorts); }

struct ClusterRequest {
    std::string scheduler = "auto";  // none, auto, or a Family's name
    std::vector<SaidFact> said;
    int least = 1;              // the least number of nodes, where the user tells a number
    bool one_node = false;      // the user asks for one node: nothing else is looked at
    bool numbered = true;       // nodes have numbers and meet at node 0; else the user says how they meet
    bool adapts_tasks = false;  // the user expects several processes on a node
    PortRange derived_ports = kDerivedPortRange;
};

struct DerivedFact {
    std::optional<Claim> chosen;
    std::vector<Claim> rivals;  // with other values
};

struct ClusterTable {
    Situation situation = Situation::alone;
    std::map<Fact, DerivedFact> facts;
    std::vector<ListedHost> hosts;  // in the order of the node numbers; empty where no family lists them
    std::string hosts_source;
    bool many_addresses = false;  // as FamilyFacts has it
    std::string family;           // what this process is in, "a Slurm step"; empty: nothing known
    std::optional<Tasks> tasks;   // of `family`
    // started_by names the remote shell by which this process reaches the hosts of an allocation, to start
    // their agents. Empty: it starts none.
    std::string started_by;
    bool is_outside = false;  // as FamilyFacts has it
    std::string refusal;  // one line: why no job can be made of the values, and the way out; empty: one can
};

// Returns the first port that a job may try for its coordinator, derived from the job's id. The last one it
// may try (derived_ports) is within the range, too.
std::uint16_t port_of_job(const std::string& job_id, const PortRange& range = kDerivedPortRange);

ClusterTable derive_cluster(const ClusterView& view, const ClusterRequest& request);

// Says whether this process runs below a worker of another job, with variables from that job's agent. Either
// of two variables tells, as a program may remove one.
bool is_in_worker(const Environment& environment);

// Returns null for a fact that is not known.
const Claim* chosen(const ClusterTable& table, Fact fact);
std::optional<int> chosen_number(const ClusterTable& table, Fact fact);

// Returns which of several processes this is, where all of them are started with the same words: "this is
// task 0 of 2 of a Slurm step (SLURM_STEP_NUM_TASKS=2)", or a platform's node of several. Empty: nothing
// tells of others.
std::string one_of_several(const ClusterTable& table);

// scheduler_names: what --scheduler takes besides none and auto.
std::vector<std::string> scheduler_names();

}  // namespace launch
}  // namespace ddprun
