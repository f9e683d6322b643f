// The modes: ways to run ddprun. main.cpp has them in a table and runs the first that claims the call. To add one: a file with
// its two functions, declared here, and a row of that table.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/ddprun/modes/launch_features.hpp"
#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/cluster_plan.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/start/starter.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline app {

// What a relay that has started this agent hands it.
struct FromRelay {
    OwnedDescriptor line;
    int slots = 0;
    std::string hosts;
    std::string run_record;  // RunStart's
};

// One call of ddprun, and what the modes have found out of it so far. What costs something is read when a mode asks for it
// first. On the only thread there is.
class Call {
  public:
    Call(std::string called, std::vector<std::string> words, LauncherLog& log);

    const std::string& called() const { return called_; }  // argv, split
    const std::vector<std::string>& words() const { return words_; }
    std::string name() const;  // by which it was called, without folders
    LauncherLog& log() { return log_; }
    std::chrono::steady_clock::time_point start() const { return start_; }

    // What DDPRUN_SECRET held, which is not in the environment any more.
    std::string& secret();

    // The command line: these words, or all of them. Throws UsageError.
    void read(const std::vector<std::string>& words);
    CommandLine& line();
    // The same with what the cluster's environment adds to it. Throws UsageError.
    ClusterPlan& plan();
    std::optional<FromRelay>& relay() { return relay_; }

    // The features of this launch; nothing before there is one.
    std::optional<LaunchFeatures>& features() { return features_; }

    // The line of an error, as the user has said its option.
    std::string said(const std::string& message) const;
    // Whatever the failure; known once the command line is read.
    bool exits_with_one() const { return line_ && line_->exits_with_one; }

  private:
    const std::string called_;
    const std::vector<std::string> words_;
    LauncherLog& log_;
    const std::chrono::steady_clock::time_point start_;
    std::optional<std::string> secret_;
    std::optional<FromRelay> relay_;
    std::optional<CommandLine> line_;
    std::optional<ClusterPlan> plan_;
    std::optional<LaunchFeatures> features_;
};

struct Mode {
    bool (*claims)(Call&);  // whether the call is one of this mode, if it is none of those before it
    int (*run)(Call&);      // the exit code; throws UsageError and system_error
};

// A process of a start on several hosts that reaches further ones.
bool claims_relay(Call& call);
int run_relay_mode(Call& call);

// One node's part in a doctor of several.
bool claims_doctor_node(Call& call);
int run_doctor_node_mode(Call& call);

// `ddprun doctor`.
bool claims_doctor(Call& call);
int run_doctor_mode(Call& call);

// --help, --version and the documentation.
bool claims_show(Call& call);
int run_show_mode(Call& call);

// --make-secret.
bool claims_secret(Call& call);
int run_secret_mode(Call& call);

// --explain.
bool claims_explain(Call& call);
int run_explain_mode(Call& call);

// A job on several hosts, named by --hosts or by the allocation that this process is in.
bool claims_start(Call& call);
int run_start_mode(Call& call);

// --adapt: this process becomes the one worker that a process launcher has started it for.
bool claims_adapt(Call& call);
int run_adapt_mode(Call& call);

// This node's agent, which is what everything else is.
bool claims_launch(Call& call);
int run_launch_mode(Call& call);

// What modes have in common. `adjust` changes what the starter is to do, where it is not the user's job.
int start_job(Call& call, const CommandLine& line, const std::function<void(StarterOptions&)>& adjust = {});
// Prints of the plan what --dry-run shows, as text or JSON, and starts nothing.
int show_dry_run(const LaunchOptions& options, bool as_json);
int show_start(const CommandLine& line, const StarterOptions& options);

}  // namespace ddprun::inline app
