#include "apps/ddprun/modes/mode.hpp"

#include <filesystem>
#include <utility>

#include "apps/cli/option_values.hpp"
#include "apps/ddprun/plan/job_secret.hpp"
#include "apps/ddprun/plan/node_facts.hpp"
#include "launcher/cluster/cluster_table.hpp"
#include "launcher/start/relay.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace app {
namespace {

std::optional<FromRelay> take_from_relay() {
    const std::string started = take_variable(kStartedVariable);
    if (started.empty()) return std::nullopt;
    return FromRelay{
        std::make_shared<OwnedDescriptor>(take_relay_line()),
        {whole_number<int>(started).value_or(0), comma_separated(take_variable(kStartedHostsVariable)),
         take_variable(kStartedPythonVariable)},
        take_variable(kStartedProgramVariable),
        take_variable(kStartedRunVariable)};
}

}  // namespace

LaunchFeatures::LaunchFeatures(std::chrono::steady_clock::time_point start, std::vector<std::string> command,
                               LauncherLog& log)
    : start_(start),
      options_read_(std::chrono::steady_clock::now()),
      log_(log),
      command_(std::move(command)) {}

void LaunchFeatures::launch_known(const LaunchOptions& options, const JobPlan& job) {
    features_ = make_features({.options = options,
                               .log = log_,
                               .rdzv_backend = backend_name(job.rdzv_backend),
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
    const Environment& variables = environment();  // and what a relay says
    line_ = parse_command_line(words, variables, name(), files_,
                               relay_ ? std::optional(relay_->starter) : std::nullopt);
}

const Said& Call::line() {
    if (!line_) read(words_);
    return *line_;
}

const JobPlan& Call::plan() {
    if (!plan_)
        plan_ =
            line().start.is_asked() ? JobPlan(line()) : plan_job(line(), find_cluster_view(environment()));
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
    if (plan_) return as_said(*plan_, message);
    return line_ ? as_said(*line_, message) : message;
}

}  // namespace app
}  // namespace ddprun
