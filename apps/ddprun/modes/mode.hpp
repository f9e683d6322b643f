// A Mode is a way to run ddprun. main.cpp has the modes in a table and runs the first that claims the call.
// To add one: a file that defines it, `extern const Mode kNAME{claims, run}`, and a row of that table; what
// is short stands in the table itself.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/job_plan.hpp"
#include "launcher/features/features.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/path_template.hpp"
#include "launcher/start/starter.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace app {

// LaunchFeatures are the features of this launch (launcher/features/features.hpp), from the moment that the
// command line is understood.
class LaunchFeatures {
  public:
    // LaunchFeatures: `log` outlives it; `start`: of this launcher; `command`: the launcher's words.
    LaunchFeatures(std::chrono::steady_clock::time_point start, std::vector<std::string> command,
                   LauncherLog& log);

    // Makes the features; called once the options of the launch are final.
    void launch_known(const LaunchOptions& options, const JobPlan& job);

    // Returns the features that there are, which the agent tells of what happens.
    std::vector<Feature*> all() const;

  private:
    std::chrono::steady_clock::time_point start_;
    std::chrono::steady_clock::time_point options_read_;
    LauncherLog& log_;
    const std::vector<std::string> command_;
    std::vector<std::unique_ptr<Feature>> features_;
};

// FromRelay: what a relay that has started this agent hands to it.
struct FromRelay {
    std::shared_ptr<OwnedDescriptor> line;  // open as long as this process, or until a feature takes it
    Starter starter;
    std::string program;     // the file that has StartPlan's read_program; empty: it has none
    std::string run_record;  // RunRecord of the starter as JSON; may be empty
};

// A Call is one call of ddprun, and what the modes have found out of it so far. What costs something is read
// when a mode asks for it first. Used on the only thread there is.
class Call {
  public:
    Call(std::string called, std::vector<std::string> words, LauncherLog& log);

    const std::string& called() const { return called_; }  // argv, split
    const std::vector<std::string>& words() const { return words_; }
    std::string name() const;  // by which ddprun was called, without folders
    LauncherLog& log() { return log_; }
    std::chrono::steady_clock::time_point start() const { return start_; }

    // Returns what DDPRUN_SECRET held, which is not in the environment any more.
    std::string& secret();

    // Returns this process's environment, without what only the launcher may know. The environment stays as
    // it is at the first call.
    const Environment& environment();

    // Reads the command line: these words, or all of them. Throws UsageError.
    void read(const std::vector<std::string>& words);
    const Said& line();
    // Returns the command line with what the cluster's environment adds to it. Throws UsageError.
    const JobPlan& plan();
    const std::optional<FromRelay>& relay() const { return relay_; }
    // Returns the files that its options name, each of which is read once.
    const ToldFiles& files() const { return files_; }

    // Returns the features of this launch; nothing before there is one.
    std::optional<LaunchFeatures>& features() { return features_; }

    // Returns true unless this is one of several of its node's tasks of a process launcher, and another one
    // says what all would say alike. With --adapt each task is a worker, and speaks.
    bool speaks_for_node() const noexcept;

    // Returns the line of an error, with the option as the user has said it.
    std::string said(const std::string& message) const;
    // Returns whether every failure ends with 1; known once the command line is read.
    bool exits_with_one() const { return line_ && line_->exits_with_one; }

  private:
    const std::string called_;
    const std::vector<std::string> words_;
    LauncherLog& log_;
    const std::chrono::steady_clock::time_point start_;
    std::optional<std::string> secret_;
    std::optional<FromRelay> relay_;
    std::optional<Environment> environment_;
    ToldFiles files_;
    std::optional<Said> line_;
    std::optional<JobPlan> plan_;
    std::optional<LaunchFeatures> features_;
};

struct Mode {
    bool (*claims)(Call&);  // whether the call is one of this mode, if it is none of those before it
    int (*run)(Call&);      // the exit code; throws UsageError and system_error
};

// Runs this node's agent, as every call does that no other mode claims.
int run_launch(Call& call, JobPlan plan);

// Starts a job on several hosts, for several modes. `adjust` returns what the starter is to do, where it is
// not the user's job.
int start_job(Call& call, JobPlan plan, const std::function<StarterOptions(StarterOptions)>& adjust = {});
// Prints what --dry-run shows of the plan, as text or JSON, and starts nothing.
int show_dry_run(const LaunchOptions& options, bool as_json);
int show_start(const JobPlan& job, const StarterOptions& options);

}  // namespace app
}  // namespace ddprun
