// Said is what the command line of ddprun, its variables and its configuration file have said: plain values,
// which parse_command_line() makes of the words, and no other code writes.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/option_row.hpp"
#include "apps/ddprun/options/launcher_words.hpp"
#include "apps/ddprun/options/option_values.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/cluster/family.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/plan/cpu_binding.hpp"
#include "launcher/plan/device_binding.hpp"
#include "launcher/start/host_slots.hpp"
#include "launcher/start/start_tree.hpp"
#include "rendezvous/secure/secret.hpp"

namespace ddprun {
inline namespace app {

// A StartRequest is what the command line says of the hosts of a job.
struct StartRequest {
    std::string hosts;      // --hosts; empty: not said
    std::string host_file;  // --hostfile; empty: not said
    std::string include;
    std::string exclude;
    std::vector<std::string> rsh;  // empty: ssh
    int fan_out = kDefaultFanOut;
    bool no_ship = false;
    // option_words: the launcher's own words, with whole names, for the agents; program_words are the
    // program's.
    std::vector<std::string> option_words;
    std::vector<std::string> program_words;

    bool is_asked() const { return !hosts.empty() || !host_file.empty(); }
};

// A Starter is what the starter of a job on several hosts tells the agent that it has started here.
struct Starter {
    int slots = 0;                   // StartNode's
    std::vector<std::string> hosts;  // the names of all nodes, for node 0; else none
    std::string python;              // own_python() there
};

// Variables: name and value.
using Variables = std::vector<std::pair<std::string, std::string>>;

// kSecretVariable holds the job's secret itself; no option sets that, since every user of the machine sees
// command lines.
inline constexpr const char* kSecretVariable = "DDPRUN_SECRET";

struct Said : AgentOptions {
    Said() { terminating_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT}; }

    bool nodes_said = false;  // --nnodes or --standalone was given, or its variable
    bool standalone = false;
    std::string rank_order_by = "node";  // or topology, or a file
    std::string scheduler = "auto";
    bool adapt = false;
    std::string local_addr;  // empty: not said
    WorkerCount nproc_per_node = 1;
    std::optional<std::string> master_addr;
    std::optional<std::uint16_t> master_port;
    RdzvBackend rdzv_backend = RdzvBackend::fixed;
    RdzvEndpoint rdzv_endpoint;    // made into master_addr and master_port, or into `etcd`
    bool address_assumed = false;  // 127.0.0.1 for several nodes, worth a line
    RdzvConf rdzv_conf;            // its times are made into join_timeout and heartbeat
    bool listen_any = false;
    std::string networks;  // for the workers' own connections; empty: not said
    std::string signals_text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";  // --signals-to-handle, for the workers
    std::vector<std::string> unknown_signals;                    // named in signals_text, worth a warning
    Verbosity verbosity = Verbosity::usual;
    std::string log_file;  // empty: none
    bool quiet = false;    // made into `verbosity`
    bool verbose = false;
    bool detach = false;
    Auth auth = Auth::automatic;
    std::string secret_file;  // empty: not said
    bool makes_secret = false;
    bool like_torchrun = false;
    OmpThreads omp_threads = OmpThreads::cpus;
    bool use_env = false;  // made into an empty `legacy_launch`
    bool module = false;
    bool no_python = false;
    bool python = false;
    bool share_gpus = false;
    GpuBind gpu_bind = GpuBind::automatic;
    CpuBind cpu_bind = CpuBind::none;     // --bind …
    std::optional<CpuBind> numa_binding;  // … and torchrun's way to say it
    bool dry_run = false;
    bool explain = false;
    bool json = false;                          // --explain or --dry-run prints JSON
    std::vector<RankCommand> rank_programs;     // --program
    std::vector<NodeProgram> further_programs;  // behind ":"
    StartRequest start;                         // of the job's hosts
    ToldFiles files;                            // that its options name
    Variables variables;                        // --env
    bool clean_environment = false;
    std::vector<std::string> program;  // name and arguments; empty only with `show`
    std::optional<Starter> starter;    // of an agent that was started from another host
    std::vector<std::string>
        own_variables;                 // DDPRUN_<OPTION>: for this launcher, not for those in its workers
    std::optional<std::string> show;   // --help and the like: print this and end with 0
    TypedNames typed;                  // for errors
    std::string valueless;             // LauncherWords::valueless
    std::vector<ToldOption> told;      // which options were set where, for --explain
    std::vector<std::string> remarks;  // of options without effect, worth a line
};

// Returns `message`, which begins with an option, with the option as the user has typed it;
// --master-addr becomes --rdzv-endpoint if the address is the endpoint's.
std::string as_said(const Said& line, const std::string& message);

// Returns the hosts that --hosts or --hostfile names, with --include and --exclude applied; `file_text` is
// what stands in the file. Pure. Throws UsageError.
std::vector<HostSlots> said_hosts(const StartRequest& start, const std::string& file_text);
// Returns what --include and --exclude leave of the hosts.
std::vector<HostSlots> selected_hosts(const StartRequest& start, std::vector<HostSlots> hosts);

// Returns --nnodes as it is said: "N", or "MIN:MAX".
std::string nnodes_text(const Said& line);

// SaidTimes are those of --join-timeout, --heartbeat and --last-call that count: of two from one place, an
// option of its own is stronger than --rdzv-conf.
struct SaidTimes {
    std::chrono::milliseconds join_timeout, heartbeat, last_call;
};
SaidTimes said_times(const Said& line);

// Returns what is wrong with a number that is none of the job's nodes; empty: it is one. Where the user says
// nothing of their count, the cluster may (job_plan.hpp).
std::string node_rank_complaint(const Said& line);

}  // namespace app
}  // namespace ddprun
