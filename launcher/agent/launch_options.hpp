// LaunchOptions have everything that an agent needs to know, decided before it starts (by apps/ddprun from
// the command line). Plain values; validated where they are filled in. Where a comment says that node 0's
// count, the values of other nodes are ignored.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/feature_options.hpp"
#include "launcher/agent/option_origin.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/output/log_file.hpp"
#include "launcher/output/output_plan.hpp"
#include "launcher/plan/own_address.hpp"
#include "launcher/plan/rank_command.hpp"
#include "launcher/plan/topology.hpp"
#include "launcher/process/signal_scope.hpp"
#include "launcher/rank_set.hpp"
#include "rendezvous/coordinator/job_options.hpp"
#include "rendezvous/etcd/etcd_options.hpp"
#include "rendezvous/membership/member_list.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/system/secret_key.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// WorkerPlan: what one worker runs; its place in the round is not known yet.
struct WorkerPlan {
    std::vector<std::string> argv;
    Environment additions;  // over the inherited environment: devices, OMP_NUM_THREADS
    CpuList cpus;           // as WorkerSpec has these two
    int memory_node = -1;
    std::string place;  // where `cpus` and `memory_node` are, in words; empty where that is not asked for
    bool sees_one_gpu = false;    // of several that the node has, by --gpu-bind
    bool is_beyond_gpus = false;  // its local rank is beyond the node's GPUs
};

// RankPlan: what the ranks that --program names run, in place of LaunchOptions::workers.
struct RankPlan {
    RankCommand where;
    std::vector<WorkerPlan> workers;  // one for each local rank
};

// RankVariable: a variable that only some ranks have.
struct RankVariable {
    RankSet ranks;
    bool local = false;  // `ranks` are local ones
    std::string name;
    std::string value;

    bool names(int rank, int local_rank) const { return ranks.contains(local ? local_rank : rank); }
};

// Hosting says which agent hosts the coordinator.
enum class Hosting {
    by_number,  // the agent of node 0
    yes,        // this agent
    if_first,   // this agent, unless another one on this machine has the port already
    if_here,    // this agent, if the name where they meet turns out to be this machine's; then as if_first
    no,         // another agent
};

// StoreAccess says how workers of a job of several nodes reach the store.
enum class StoreAccess {
    automatic,  // wants_sealed_store() says; decided before an agent runs
    door,       // by way of their own agent
    direct,     // at MASTER_ADDR, which is node 0's own
};

// StandardInput: which ranks read the launcher's own standard input; all others have /dev/null.
struct StandardInput {
    bool all = false;
    std::optional<int> rank = {};  // the global one
};

// AgentOptions: what the user decides of an agent. The plan takes it over as it was said.
struct AgentOptions {
    int nnodes = 1;         // at most
    Elasticity elasticity;  // node 0's counts, but for the least number, which all must give
    bool failover = true;   // another node may host the coordinator when its node is lost
    int node_rank = 0;      // kUnnumbered until the coordinator says it
    Hosting hosting = Hosting::by_number;
    std::optional<EtcdOptions>
        etcd;  // where the host is elected; until then `hosting` is no, and `master` is unknown
    std::optional<PortRange>
        port_range;  // for listeners without a port of their own; nothing: the kernel chooses
    StoreAccess store_access = StoreAccess::automatic;  // of node 0
    bool allow_different = false;                       // other nodes may run something else
    bool strict_env = false;                            // of node 0: no job of nodes that differ
    std::string run_id = "none";
    std::string role = "default";
    std::chrono::milliseconds join_timeout = kDefaultJoinTimeout;
    std::chrono::milliseconds heartbeat{5'000};  // how long a node may be silent; node 0's counts
    std::chrono::milliseconds grace_period{30'000};
    std::chrono::milliseconds lost_grace{5'000};  // once the coordinator is lost; at most grace_period
    RestartOptions restarts;                      // node 0's count
    std::string progress_file;                    // its change during a round is progress; empty: none
    std::optional<ExitWaitOptions> exit_wait;     // node 0's count
    // terminating_signals end the job: the workers get the same signal, then the grace runs.
    std::vector<int> terminating_signals;
    // forwarded_signals do not end the job: received by the launcher -> sent to every worker of the job.
    std::map<int, int> forwarded_signals;
    // requeue_signals: after one of these a job is to be run again if all its workers end with 0
    // (kExitPreempted).
    std::set<int> requeue_signals;
    SignalScope signal_scope = SignalScope::automatic;
    OutputPlan output;
    std::vector<Wrap> wraps;
    std::optional<int> tty_rank;      // the global rank that has the launcher's own stdin, stdout and stderr
    StandardInput standard_input;     // where there is no tty_rank
    bool virtual_local_rank = false;  // LOCAL_RANK is 0 for all
    bool exits_with_one = false;      // whatever the failure, except for a wrong command line
    std::string result_file;          // empty: none
    bool run_path = false;            // Python runs it as a path
    std::string legacy_launch;        // its argument with the local rank; empty: none
    std::vector<RankVariable> rank_variables;  // over `environment` and WorkerPlan::additions
    FeatureOptions features;                   // what only features know, each its own struct
    OptionOrigins origins;                     // where the options that are not the defaults come from

    std::chrono::milliseconds grace_when_lost() const { return std::min(lost_grace, grace_period); }
};

// LaunchOptions: with what the machine and the job's surroundings decide.
struct LaunchOptions : AgentOptions {
    std::optional<SecretKey>
        key;  // of the job: its agents prove to each other that they have it; none: they prove nothing
    HostList host_list;  // by which nodes without a number are numbered; else the hosts of nodes 0, 1, …
    std::string rank_order;  // Hello's
    // master: MASTER_ADDR and MASTER_PORT as the user gave them. Port 0 (one node only): a free port is
    // taken.
    Endpoint master{"127.0.0.1", 0};
    bool is_master_unresolved = false;  // on this node, so far
    OwnAddress own_address;             // towards other nodes
    // master_ports: how many ports from master.port on may be the coordinator's. The coordinator has the
    // first of them that is free on its host.
    int master_ports = 1;
    ListenPlan listen;                            // of node 0: where it hosts the rendezvous
    std::vector<std::string> command;             // the program and its arguments as the user gave them
    std::vector<std::string> program_words;       // the words of `command` that nodes must have alike
    std::chrono::milliseconds join_spent{0};      // of join_timeout, on names, before there was an agent
    std::chrono::steady_clock::time_point start;  // of this launcher …
    std::int64_t start_unix_s = 0;                // … and by the wall clock
    RunFolderWork in_run_folder;                  // empty: nothing
    // shares_screen: srun or the like has started the agents of all nodes, and shows on one screen what they
    // say.
    bool shares_screen = false;
    bool is_started = false;         // ddprun itself has started the agents (--hosts)
    std::vector<RankPlan> programs;  // the first that names a rank counts
    // read_program: the program that all workers read from their standard inputs; nothing: their programs are
    // files.
    std::shared_ptr<const std::string> read_program;
    bool answers_failures = false;      // a feature does; the agent asks its features
    std::string unfit;                  // what Features::unfit() says: the agent only tells it to other nodes
    std::optional<int> told_exit_code;  // a worker that ends with it has told the user why: no report follows
    std::string own_error_file;         // the launcher's own TORCHELASTIC_ERROR_FILE; empty: none
    std::string entry_name;             // what reports call the program …
    std::string known_as;               // … and what the job's id begins with
    std::string python_script;          // the file that Python runs; empty: a module, or no Python
    std::string interpreter;          // the Python that runs the workers, in words; empty: none, or not found
    std::vector<WorkerPlan> workers;  // one for each local rank
    std::vector<std::string> placement_remarks;  // what cannot be placed as asked, in lines
    Environment environment;                     // what workers inherit
    bool hangup_ignored = false;         // SIGHUP was ignored when the launcher was entered, and stays so
    std::uint64_t open_files = 0;        // the workers' soft limit of descriptors; 0: the launcher's own
    bool terminal_stop_ignored = false;  // SIGTSTP was ignored, and stays so
    std::string
        master_source;  // the variable or the file that has said where node 0 is; empty: the command line
};

}  // namespace launch
}  // namespace ddprun
