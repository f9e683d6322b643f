// A ClusterTable says which job this process is in and which node of it this machine is: each value with
// where it comes from, and with the rivals that said otherwise. Pure.
//
// The first hit counts for each value, in the order of Belief:
//   1  what the user says: command line, DDPRUN_*, PET_*, configuration file
//   2  the process launcher that started this process: Flux, PALS, Open MPI, …, a Slurm step. Of several the
//      innermost whose facts fit this machine
//   3  operators and platforms that tell each node its number
//   4  MASTER_ADDR, RANK and WORLD_SIZE, where it can be told whether they count nodes or processes
//   5  an allocation; of one with more nodes this process starts the other agents, where it can reach them
//   6  one node
// Count, number and place of the nodes are always of one and the same family; from a weaker one comes the
// place alone, and only where its list agrees with that count and that number. What is not known and not of
// one node is refused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cluster/family.hpp"
#include "rendezvous/net/port_range.hpp"

namespace ddprun {
inline namespace launch {

enum class Situation {
    alone,            // one node, whoever started it
    agent_per_node,   // a launcher or a platform starts one process on each node
    process_per_gpu,  // several processes were started on a node, each for a worker's place
    allocation,       // one process, the rest of the allocation is idle
};

struct SaidFact {
    Fact fact = Fact::nnodes;
    Claim claim;
};

// Ports derived from a job's identity are here unless the user says: below those that the kernel gives to
// clients (ip_local_port_range).
inline constexpr PortRange kDerivedPortRange{20'000, 28'999};
// One job may have as many of these, from its own one on, where that is taken; fewer in a small range, which
// other listeners need, too.
inline constexpr int kDerivedPorts = 8;
constexpr int derived_ports(const PortRange& range) { return std::clamp(range.size() / 4, 1, kDerivedPorts); }

struct ClusterRequest {
    std::string scheduler = "auto";  // none, auto, or a Family's name
    std::vector<SaidFact> said;
    int least = 1;          // nodes, if the user has said how many at most
    bool one_node = false;  // the user has said so: nothing else is looked at
    bool numbered =
        true;  // nodes are numbered, and meet at node 0; else the user says how they find each other
    bool adapts_tasks = false;  // several processes on a node are what the user expects
    PortRange derived_ports = kDerivedPortRange;
};

struct DerivedFact {
    std::optional<Claim> chosen;
    std::vector<Claim> rivals;  // with other values
};

struct ClusterTable {
    Situation situation = Situation::alone;
    std::map<Fact, DerivedFact> facts;
    std::vector<ListedHost> hosts;  // in the order of the node numbers; empty where nobody lists them
    std::string hosts_source;
    bool many_addresses = false;  // as FamilyFacts has it
    std::string family;           // what this process is in, "a Slurm step"; empty: nothing that is known
    std::optional<Tasks> tasks;   // of that
    // It names the remote shell by which this process reaches an allocation's hosts whose agents it is to
    // start; else empty.
    std::string started_by;
    bool is_outside = false;  // as FamilyFacts has it
    std::string refusal;      // one line: why no job can be made of it, and the way out; empty: one can
};

// Returns a job's own port, from which on all of its ports are within the range.
std::uint16_t port_of_job(const std::string& job_id, const PortRange& range = kDerivedPortRange);

ClusterTable derive_cluster(const ClusterView& view, const ClusterRequest& request);

// Says whether this is below a worker of another job, whose variables came down from its agent: the peers of
// that one are in the job already. There are two names for where a program has taken one away from its
// children.
bool is_in_worker(const Environment& environment);

// Returns null where nobody says.
const Claim* chosen(const ClusterTable& table, Fact fact);
std::optional<int> chosen_number(const ClusterTable& table, Fact fact);

// The names that --scheduler takes besides none and auto.
std::vector<std::string> scheduler_names();

// A ClusterTable as lines for people: all of it, or what a launcher says when it starts. Pure.

// "nodes", "master address"; "a process launcher", "the command line"; "one process on each node".
std::string_view fact_name(Fact fact);
std::string_view belief_text(Belief belief);
std::string_view situation_text(Situation situation);

// One line for each value, with its source and the rivals that said otherwise; and why it is refused, if it
// is.
std::vector<std::string> cluster_lines(const ClusterTable& table);

// "2 nodes by SLURM_STEP_NUM_NODES, this is node 1 by SLURM_NODEID, they meet at n1:23456 by
// SLURM_STEP_NODELIST"; with what was said by the user, too. `port` is the one that counts in the end.
std::string derived_line(const ClusterTable& table, int port);

// The rivals of what the user has said, for the end of an error: " (SLURM_STEP_NUM_NODES says 4)". Empty:
// none.
std::string rivals_text(const ClusterTable& table, Fact fact);

}  // namespace launch
}  // namespace ddprun
