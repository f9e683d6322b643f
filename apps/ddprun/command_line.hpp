// The command line of ddprun: words in, a CommandLine out. Pure but for PET_* variables, which CLI11 reads.
//
// torchrun's options, with dashes or underscores; one whose value is empty, also by its variable, counts as
// not given. Everything from the program's name on is the program's and is passed on byte for byte, but for
// one "--" (see launcher_words.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/ddprun/option_values.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/output/output_plan.hpp"
#include "launcher/plan/wrap.hpp"
#include "launcher/process/signal_scope.hpp"
#include "rendezvous/coordinator/restart_policy.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {

struct CommandLine {
    int nnodes = 1;
    bool nodes_said = false;  // --nnodes or --standalone was given, or its variable
    int node_rank = 0;
    std::string nproc_per_node = "1";  // a number ≥ 1, or auto, gpu, cpu: resolved against the machine later
    std::optional<std::string> master_addr;
    std::optional<std::uint16_t> master_port;
    bool listen_any = false;
    bool allow_different = false;
    std::string networks;  // for the workers' own connections; empty: not said
    std::string run_id = "none";
    std::string role = "default";
    int join_timeout_s = 900;
    int shutdown_timeout_s = 30;
    RestartOptions restarts;
    std::string progress_file;
    std::vector<int> terminating_signals;
    std::vector<std::string> unknown_signals;  // named in --signals-to-handle, worth a warning
    std::map<int, int> forwarded_signals;      // with those of requeue_signals
    std::set<int> requeue_signals;
    SignalScope signal_scope = SignalScope::automatic;
    OutputPlan output;
    Verbosity verbosity = Verbosity::usual;
    std::vector<Wrap> wraps;
    std::optional<int> tty_rank;
    std::string result_file;
    bool detach = false;
    bool module = false;
    bool no_python = false;
    bool python = false;
    bool share_gpus = false;
    std::string gpu_bind = "auto";
    std::vector<std::string> program;  // name and arguments; empty only with `show`
    std::optional<std::string> show;   // --help or --version: print this and end with 0
};

// `words` without the launcher's own name. Throws UsageError.
CommandLine parse_command_line(const std::vector<std::string>& words);

}  // namespace ddprun
