// CommandLine is what the command line of ddprun, its variables and its configuration file have said: plain
// values, which parse_command_line() makes of the words. Pure but for reading that file.
//
// The options are torchrun's and ddprun's own, with dashes or underscores. An option with an empty value,
// also by its variable, counts as not given. Everything from the program's name on is the program's and is
// passed on byte for byte, but for one "--" (see launcher_words.hpp).
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

    // An Allocation has the hosts of an allocation that this process is in, where it starts their agents
    // without being asked.
    struct Allocation {
        std::vector<ListedHost> hosts;
        std::string source;            // the variable that names them
        std::optional<int> own_place;  // of the host for which this process starts the agent itself
        std::string reached_by;        // the remote shell, unless `rsh` is said
        std::string run_id;            // of the scheduler's job; empty: not known, or the user's counts
        bool by_gpus = false;          // a worker for each GPU of a host, else as many as the host has slots
    };
    std::optional<Allocation> allocation;

    bool is_asked() const { return !hosts.empty() || !host_file.empty() || allocation; }
};

// Variables: name and value.
using Variables = std::vector<std::pair<std::string, std::string>>;

// kSecretVariable holds the job's secret itself; no option sets that, since every user of the machine sees
// command lines.
inline constexpr const char* kSecretVariable = "DDPRUN_SECRET";

// CommandLine: LaunchOptions as far as the words alone decide them. The further members wait for facts about
// the machine, or are for main.
struct CommandLine : LaunchOptions {
    CommandLine() { terminating_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT}; }

    bool nodes_said = false;  // --nnodes or --standalone was given, or its variable
    bool standalone = false;
    std::string rank_order_by = "node";  // or topology, or a file
    std::string scheduler = "auto";
    bool adapt = false;
    bool port_derived = false;  // master_port is of the job's id, and may be the next one if that is taken
    std::string gpus_told_by;  // the variable that says how many GPUs a scheduler has given here; empty: none
    std::string local_addr;    // empty: not said
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
    std::string starters_python;       // of an agent that was started from another host: own_python() there
    std::vector<std::string>
        own_variables;                 // DDPRUN_<OPTION>: for this launcher, not for those in its workers
    std::optional<std::string> show;   // --help and the like: print this and end with 0
    TypedNames typed;                  // for errors
    std::string valueless;             // LauncherWords::valueless
    std::vector<ToldOption> told;      // which options were set where, for --explain
    std::vector<std::string> remarks;  // of options without effect, worth a line
    // decided_by: the sign in the environment that has decided an option's value where it was not set, by the
    // option's long name (plan_cluster).
    std::map<std::string, std::string> decided_by;
};

// kTorchrunName and the next: the names by which the launcher is called, with a meaning of their own.
inline constexpr const char* kTorchrunName = "torchrun";           // as with --like-torchrun
inline constexpr const char* kLegacyLaunchName = "ddprun-launch";  // as with --legacy-launch

// The options of ddprun (option_rows()) are one row each, with default, scope and text. To add one: a row, a
// member of LaunchOptions (or of CommandLine, if the agent has no use for it), and the code that uses it.
// --help, the manual, the tables of the READMEs, shell completion and --explain are printed from the rows.

// kFindsNodes marks a row (OptionRow::marks): the option says which nodes there are, how they are reached and
// how they find each other, so that doctor takes it, too.
inline constexpr unsigned kFindsNodes = kOwnMark;
// kForStarter marks a row: the option is for the process that starts a job on several hosts, and not for the
// agents that it starts.
inline constexpr unsigned kForStarter = 2 * kOwnMark;

// Returns the rows, which put their values into `line`; `line` has to outlive them. The defaults are those of
// `line` as it is now; what rows show (--explain) is what is in `line` then.
std::vector<OptionGroup> option_rows(CommandLine& line);
// Returns the second half of the rows: the workers', behind the job's nodes and how they find each other.
std::vector<OptionGroup> worker_options(CommandLine& line);

// Makes a setter (OptionRow::set) of a whole number of seconds, at least `least`.
std::function<void(const std::string&)> seconds_into(std::chrono::milliseconds& target, int least = 0);

// Writes a time as defaults show it, "900".
std::string whole_seconds(std::chrono::milliseconds time);
// Writes a time as --explain does, "0.5 s".
std::string seconds_text(std::chrono::milliseconds time);

// Returns the launcher's words without those that only the starter of a job on several hosts has a use for
// (kForStarter).
std::vector<std::string> without_start_words(const std::vector<std::string>& words,
                                             const std::vector<OptionGroup>& groups);

// Returns `message`, which begins with an option, with the option as the user has typed it;
// --master-addr becomes --rdzv-endpoint if the address is the endpoint's.
std::string as_said(const CommandLine& line, const std::string& message);

// WeakerOption is thrown where an option excludes another one that is from a weaker place (a variable is
// weaker than the command line, the file weaker than both). `flag` is the weaker option, which is passed over
// when the line is read again.
struct WeakerOption {
    std::string flag;
    std::string remark;
};

// Throws WeakerOption if one of the two options is from a weaker place than the other, else UsageError: two
// from the same place are the user's to settle.
[[noreturn]] void refuse_together(const CommandLine& line, const std::string& flag, const std::string& other,
                                  const std::string& message);

// Throws UsageError where the program looks like a further host of --hosts, written behind a blank. Adds
// remarks about options of this launcher that stand behind a script (habits.cpp).
void look_at_program_words(CommandLine& line);
// Returns the error that says how several hosts are written, for a program that looks like one of them.
std::string parted_hosts(const CommandLine& line);

// Returns what to type for a program that is not there, where a shell would have understood it: FOO=1, cd, or
// several words in one. For the end of the error; empty: nothing of that kind.
std::string meant_for_shell(const std::string& name);

// Throws UsageError for a number that is none of the job's nodes. Where the user says nothing of their count,
// the cluster may (cluster_plan.hpp).
void check_node_rank(const CommandLine& line);

// Fills in %r in the paths of the line, once the number of the node is as it will be. Throws UsageError where
// the node has none yet.
void fill_node_rank(CommandLine& line);

// Parses `words`, without the launcher's own name, which is `called`, without folders. `dropped` are passed
// over, each with its remark. `files` have what was read before. Throws UsageError.
CommandLine parse_command_line(const std::vector<std::string>& words, const Environment& environment,
                               const std::string& called = "ddprun", DroppedOptions dropped = {},
                               const ToldFiles& files = {});

}  // namespace app
}  // namespace ddprun
