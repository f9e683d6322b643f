#include "apps/ddprun/modes/mode.hpp"

#include <filesystem>
#include <set>
#include <utility>

#include "apps/cli/option_values.hpp"
#include "apps/ddprun/modes/doctor_node.hpp"
#include "apps/ddprun/plan/job_secret.hpp"
#include "apps/ddprun/plan/job_start.hpp"
#include "apps/ddprun/plan/node_facts.hpp"
#include "launcher/cluster/cluster_table.hpp"
#include "launcher/start/relay.hpp"
#include "launcher/start/remote_shell.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace app {
namespace {

std::optional<FromRelay> take_from_relay() {
    const std::string started = take_variable(kStartedVariable);
    if (started.empty()) return std::nullopt;
    return FromRelay{take_relay_line(),
                     whole_number<int>(started).value_or(0),
                     take_variable(kStartedHostsVariable),
                     take_variable(kStartedPythonVariable),
                     take_variable(kStartedProgramVariable),
                     take_variable(kStartedRunVariable)};
}

// The file of --config says of a job more than where its nodes are, which is all that counts for doctor's.
bool drop_told_to_jobs(const CommandLine& line, DroppedOptions& dropped) {
    CommandLine unused;
    std::set<std::string> of_nodes;
    for (const OptionGroup& group : option_rows(unused)) {
        for (const OptionRow& row : group.rows) {
            if (row.has(kFindsNodes)) of_nodes.insert(long_name(row));
        }
    }
    bool any = false;
    for (const ToldOption& option : line.told) {
        const OptionOrigin& origin = option.told.front().origin;
        if (origin.source != OptionSource::config_file || of_nodes.contains(option.name)) continue;
        dropped.emplace(option.name,
                        option.name + ": passed over, doctor starts no program" + origin_text(origin));
        any = true;
    }
    return any;
}

}  // namespace

LaunchFeatures::LaunchFeatures(CommandLine& line, const PathFacts& known, const Environment& environment,
                               std::chrono::steady_clock::time_point start, std::vector<std::string> command,
                               LauncherLog& log)
    : start_(start),
      options_read_(std::chrono::steady_clock::now()),
      log_(log),
      command_(std::move(command)) {
    const EarlyFacts facts{
        .environment = environment, .paths = known, .starts_nothing = line.dry_run, .site_policy = [&line] {
            return agreed_policy(line);
        }};
    if (const auto wrong = open_features(line.features, facts)) throw UsageError(*wrong);
}

void LaunchFeatures::launch_known(const LaunchOptions& options, const CommandLine& line) {
    features_ = make_features({.options = options,
                               .log = log_,
                               .rdzv_backend = backend_name(line.rdzv_backend),
                               .start = start_,
                               .options_read = options_read_,
                               .command = command_});
}

std::vector<Feature*> LaunchFeatures::all() const {
    std::vector<Feature*> features;
    for (const auto& feature : features_) features.push_back(feature.get());
    return features;
}

Call::Call(std::string called, std::vector<std::string> words, LauncherLog& log)
    : called_(std::move(called)),
      words_(std::move(words)),
      log_(log),
      start_(std::chrono::steady_clock::now()) {}

std::string Call::name() const { return std::filesystem::path(called_).filename().string(); }

std::string& Call::secret() {
    if (!secret_) secret_ = take_variable(kSecretVariable);
    return *secret_;
}

const Environment& Call::environment() {
    secret();
    if (!relay_) relay_ = take_from_relay();
    if (!environment_) environment_ = current_environment();
    return *environment_;
}

void Call::read(const std::vector<std::string>& words) {
    const auto parse = [&] { return parse_command_line(words, environment(), name(), dropped_, files_); };
    CommandLine line = parse();
    if (is_doctors_job(line.program)) {
        if (drop_told_to_jobs(line, dropped_)) line = parse();
        line.told_exit_code = kExitProblem;
    }
    if (relay_) {
        become_started(line, relay_->slots, relay_->hosts);
        line.starters_python = relay_->python;
    }
    line_ = std::move(line);
}

CommandLine& Call::line() {
    if (!line_) read(words_);
    return *line_;
}

void Call::drop(const WeakerOption& weaker) {
    dropped_.emplace(weaker.flag, weaker.remark);
    line_.reset();
    plan_.reset();
}

ClusterPlan& Call::plan() {
    if (!plan_) plan_ = plan_cluster(line(), find_cluster_view(environment()));
    return *plan_;
}

bool Call::speaks_for_node() const noexcept {
    if (line_ && line_->adapt) return true;
    try {
        const ClusterTable table = derive_cluster(find_cluster_view(current_environment()), {});
        return !table.tasks || table.tasks->local_task.value_or(0) == 0;
    } catch (const std::exception&) {
        return true;
    }
}

std::string Call::said(const std::string& message) const {
    if (plan_) return as_said(plan_->line, message);
    return line_ ? as_said(*line_, message) : message;
}

}  // namespace app
}  // namespace ddprun
