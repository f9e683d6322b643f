// The command line of ddprun, its variables and its configuration file: words in, a CommandLine out. Pure but
// for reading that file.
//
// torchrun's options, with dashes or underscores; one whose value is empty, also by its variable, counts as
// not given. Everything from the program's name on is the program's and is passed on byte for byte, but for
// one "--" (see launcher_words.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/option_row.hpp"
#include "apps/ddprun/node_programs.hpp"
#include "apps/ddprun/option_values.hpp"
#include "apps/ddprun/start_request.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/plan/cpu_binding.hpp"
#include "launcher/plan/device_binding.hpp"
#include "rendezvous/secure/secret.hpp"

namespace ddprun::inline app {

// Holds the job's secret itself; no option sets that, since every user of the machine sees command lines.
inline constexpr const char* kSecretVariable = "DDPRUN_SECRET";

// What of LaunchOptions the words alone decide is in there already; here is what only the machine makes
// something of, and what main has to know.
struct CommandLine : LaunchOptions {
    CommandLine();

    bool nodes_said = false;  // --nnodes or --standalone was given, or its variable
    bool standalone = false;
    std::string rank_order_by = "node";  // or topology, or a file
    std::string scheduler = "auto";
    bool adapt = false;
    bool port_derived = false;  // master_port is of the job's id, and may be the next one where that is taken
    bool workers_by_gpus = false;  // in place of nproc_per_node: a worker for each GPU, or else …
    int workers_without_gpus = 1;
    std::string
        gpus_told_by;  // the variable by which a scheduler says how many GPUs it has given here; empty: none does
    std::string local_addr;  // empty: not said
    std::string nproc_per_node =
        "1";  // a number ≥ 1, or auto, gpu, xpu, cpu: resolved against the machine later
    std::optional<std::string> master_addr;
    std::optional<std::uint16_t> master_port;
    RdzvBackend rdzv_backend = RdzvBackend::fixed;
    std::string rdzv_endpoint;     // made into the two above, or into `etcd`
    bool address_assumed = false;  // 127.0.0.1 for several nodes, worth a line
    RdzvConf rdzv_conf;            // its times are made into join_timeout and heartbeat
    bool listen_any = false;
    std::string networks;  // for the workers' own connections; empty: not said
    std::string signals_text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";  // --signals-to-handle, for the workers
    std::vector<std::string> unknown_signals;                    // named in it, worth a warning
    Verbosity verbosity = Verbosity::usual;
    std::string log_file;  // empty: none
    std::string events;    // a file; likewise
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
    bool check = false;  // --check
    bool explain = false;
    bool json = false;                          // what either of the two prints
    std::vector<RankCommand> rank_programs;     // --program
    std::vector<NodeProgram> further_programs;  // behind ":"
    StartRequest start;                         // of the job's hosts
    Variables variables;                        // --env
    bool clean_environment = false;
    std::vector<std::string> program;  // name and arguments; empty only with `show`
    std::vector<std::string>
        own_variables;                 // DDPRUN_<OPTION>: for this launcher, not for those in its workers
    std::optional<std::string> show;   // --help and the like: print this and end with 0
    TypedNames typed;                  // for errors
    std::vector<ToldOption> told;      // which options who has set, for --explain
    std::vector<std::string> remarks;  // of options without effect, worth a line
};

// The names by which the launcher is called, with a meaning of their own.
inline constexpr const char* kTorchrunName = "torchrun";           // as with --like-torchrun
inline constexpr const char* kLegacyLaunchName = "ddprun-launch";  // as with --legacy-launch

// An error, or a remark, that begins with an option, as the user has said that one: --rdzv_endpoint where it is of
// --master-addr and the address is the endpoint's.
std::string as_said(const CommandLine& line, const std::string& message);

// Throws UsageError for a number that is none of the job's nodes. Where the user says nothing of their count, the cluster may
// (cluster_plan.hpp).
void check_node_rank(const CommandLine& line);

// Fills in %r in the paths of the line, once the number of the node is as it will be. Throws UsageError where it has none yet.
void fill_node_rank(CommandLine& line);

// `words` without the launcher's own name, which is `called`: without folders. Throws UsageError.
CommandLine parse_command_line(const std::vector<std::string>& words, const Environment& environment,
                               const std::string& called = "ddprun");

}  // namespace ddprun::inline app
