#include "launcher/agent/end_of_job.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "launcher/path_template.hpp"
#include "launcher/process/sweeper.hpp"
#include "launcher/report/failure_cause.hpp"
#include "launcher/round/worker_group.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using Complaint = std::optional<std::string>;

void say(LauncherLog& log, const Complaint& complaint) {
    if (complaint) log.error(*complaint);
}

// A program that has started this launcher as torchrun starts its workers reads the cause from that file.
Complaint write_own_error_file(const Failure& cause, const LaunchOptions& options,
                               const RoundWorkers* workers) {
    if (options.own_error_file.empty() || cause.kind != Failure::Kind::worker_failed) return {};
    const auto own = workers != nullptr ? workers->ledger().failure() : std::nullopt;
    const bool ours = own && own->rank == reporter_of(cause);
    return write_root_cause(options.own_error_file, cause, ours ? workers->error_file_text(own->rank) : "");
}

PathFacts path_facts_of(const JobEnding& ending, const LaunchOptions& options) {
    return {ending.joined ? ending.round.start_unix_s : options.start_unix_s, options.run_id, ending.host};
}

// A look at every process would find nothing if the runner's sweep has proved that nothing is left.
bool may_have_survivors(const JobEnding& ending, const RoundWorkers* workers) {
    return ending.joined && (workers == nullptr || !workers->nothing_left());
}

// Adds what this node can find out: survivors, logs, times, and which nodes nobody could ask.
void complete(JobEnding& ending, const LaunchOptions& options, const RoundWorkers* workers) {
    ending.host = host_name();
    ending.end_unix_ms = unix_time_now_ms();
    if (ending.first_failure) ending.utc_offset = local_utc_offset(ending.first_failure->unix_time_ms);
    if (ending.first_failure && workers != nullptr) ending.logs = workers->logs_of(*ending.first_failure);
    // Without the coordinator's last word this node knows of its own workers only.
    if (ending.ranks.empty() && workers != nullptr) {
        ending.ranks = workers->ledger().ends();
        for (RankEnd& end : ending.ranks) {
            end.node_rank = options.node_rank;
            end.host = ending.host;
        }
    }
    if (ending.finish) {
        ending.unknown_nodes = ending.finish->unknown_nodes;
        ending.unknown_node_count = ending.finish->unknown_node_count;
    } else if (ending.joined) {
        ending.unknown_node_count = ending.round.group_world_size - 1;
    }
    if (!may_have_survivors(ending, workers)) return;
    if (!sees_own_processes()) {
        ending.unknown_nodes.insert(ending.unknown_nodes.begin(),
                                    node_text(ending.round.group_rank, ending.host));
        ++ending.unknown_node_count;
        return;
    }
    const auto launcher = read_process_stat(::getpid());
    auto survivors = find_survivors(ending.round.job_id, launcher ? launcher->start_time : 0);
    // The search goes by an environment, which processes change and another user's do not show.
    for (const Survivor& known :
         workers != nullptr ? workers->unkillable() : std::vector<UnkillableWorker>()) {
        const auto is_it = [&known](const Survivor& found) { return found.pid == known.pid; };
        const auto now =
            known.pid == 0 ? ProcessStat{} : read_process_stat(known.pid).value_or(ProcessStat{.state = 'X'});
        if (!now.ended() && std::none_of(survivors.begin(), survivors.end(), is_it))
            survivors.push_back(known);
    }
    for (const Survivor& survivor : survivors) ending.survivors.push_back(to_string(survivor));
}

// The host says the same on the screen that all nodes share; but only this node knows what is left on it.
bool is_said_by_host(const JobEnding& ending, const LaunchOptions& options) {
    const bool is_host = options.node_rank == ending.round.coordinator_rank;
    return options.shares_screen && ending.finish && !is_host && ending.survivors.empty();
}

bool has_told_why(const Failure& cause, const LaunchOptions& options) {
    return options.told_exit_code && cause.kind == Failure::Kind::worker_failed &&
           exit_code_of(cause) == *options.told_exit_code;
}

}  // namespace

int end_job(JobEnding ending, const LaunchOptions& options, const RoundWorkers* workers, LauncherLog& log,
            const Features& features) {
    complete(ending, options, workers);
    if (may_have_survivors(ending, workers) && !sees_own_processes())
        log.warn(
            "processes that the workers left behind may still run: without /proc nobody can look for them");
    const Verdict verdict = verdict_of(ending);
    const bool is_told = is_said_by_host(ending, options);
    // What makes this node unfit was said when it was found.
    if (verdict.is_said && !is_told && options.unfit.empty()) log.error(verdict.message);
    const auto shown = [&options](int code) { return options.exits_with_one && code != 0 ? 1 : code; };
    if (ending.first_failure && !ending.refusal) {
        ReportFacts facts = report_facts(ending, verdict, options.entry_name);
        facts.finish.exit_code = shown(verdict.exit_code);
        if (!is_told && !has_told_why(*ending.first_failure, options)) log.error(failure_report(facts));
        say(log, write_own_error_file(*ending.first_failure, options, workers));
    }
    if (features.empty() && options.result_file.empty()) return shown(verdict.exit_code);
    JobResult result = job_result(ending, verdict, options);
    result.exit_code = shown(verdict.exit_code);
    say(log, write_result_file(filled_path(options.result_file, path_facts_of(ending, options)), result));
    for (const std::string& line : features.ended(result)) log.error(line);
    return shown(result.exit_code);
}

}  // namespace launch
}  // namespace ddprun
