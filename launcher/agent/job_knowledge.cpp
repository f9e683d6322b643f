#include "launcher/agent/job_knowledge.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/agent/agent_link.hpp"
#include "launcher/agent/worker_group.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/path_template.hpp"
#include "launcher/process/sweeper.hpp"
#include "launcher/report/failure_cause.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/first_failure.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline launch {
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

Verdict verdict_of(const JobEnding& ending) {
    if (ending.finish && !ending.finish->cause && ending.finish->exit_code == kExitPreempted)
        return {kExitPreempted, "all ranks ended with 0 after a signal of --requeue-on: requeue the job",
                true};
    if (ending.finish) {
        const bool is_good = !ending.finish->cause && ending.finish->exit_code == 0;
        return {is_good ? 0 : failed_code(ending.finish->exit_code), ending.finish->message, false};
    }
    if (ending.refusal) return {failed_code(ending.refusal->exit_code), ending.refusal->reason, true};
    if (ending.first_failure) return {exit_code_of(*ending.first_failure), ending.no_successor, false};
    if (ending.signal == 0) return {};
    return {
        kExitSignalBase + ending.signal,
        fmt::format(
            "{}{}",
            ending.signal_reason.empty() ? "ended by " + signal_text(ending.signal) : ending.signal_reason,
            ending.joined ? ": no worker is left here, but node 0 did not say how the job has ended"
                          : " before any worker was started"),
        true};
}

ReportFacts report_facts(const JobEnding& ending, const Verdict& verdict, const std::string& entry_name) {
    ReportFacts facts{.entry_name = entry_name, .finish = ending.finish.value_or(Finish{})};
    facts.finish.cause = *ending.first_failure;
    facts.finish.exit_code = verdict.exit_code;
    facts.finish.message = verdict.message;
    facts.restarts = ending.round.restart_count;
    facts.max_restarts = ending.round.max_restarts;
    facts.resizes = ending.round.resizes;
    facts.utc_offset = ending.utc_offset;
    facts.survivors = ending.survivors;
    facts.unknown_nodes = ending.unknown_nodes;
    facts.unknown_node_count = ending.unknown_node_count;
    facts.logs = ending.logs;
    return facts;
}

JobResult job_result(const JobEnding& ending, const Verdict& verdict, const LaunchOptions& options) {
    JobResult result = ending;
    result.job_id = ending.round.job_id;
    result.run_id = options.run_id;
    result.entry_name = options.entry_name;
    result.node_rank = options.node_rank;
    result.nnodes = ending.joined ? ending.round.group_world_size : options.nnodes;
    result.outcome = outcome_of(verdict.exit_code, ending.first_failure, ending.joined);
    result.exit_code = verdict.exit_code;
    result.message = verdict.message;
    result.restart_count = ending.round.restart_count;
    result.max_restarts = ending.round.max_restarts;
    result.resize_count = ending.round.resizes;
    if (ending.finish) result.restarts = ending.finish->restarts;
    if (ending.finish) result.resizes = ending.finish->resizes;
    return result;
}

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

std::optional<AgentEvent> JobKnowledge::learn(const ControlMessage& message) {
    if (const auto* refused = std::get_if<Refused>(&message)) return learn_refusal(*refused);
    if (const auto* ready = std::get_if<RoundReady>(&message)) {
        known_.round = *ready;
        // Workers have them in their environment, and print them. They were cut as they came.
        for (std::string* text : {&known_.round.job_id, &known_.round.restart_reason})
            *text = harmless_line(*text, std::string::npos);
        known_.joined = true;
        known_.first_failure.reset();
        own_failure_.reset();
        return AgentEvent::round_ready;
    }
    if (std::holds_alternative<Waiting>(message) || std::holds_alternative<Parked>(message))
        return AgentEvent::place_awaited;
    if (const auto* stop = std::get_if<Stop>(&message)) {
        // A node has come, so nothing failed.
        if (stop->cause.kind != Failure::Kind::resized) known_.first_failure = stop->cause;
        return AgentEvent::stop_ordered;
    }
    if (const auto* finish = std::get_if<Finish>(&message)) {
        known_.finish = *finish;
        if (finish->cause) known_.first_failure = finish->cause;
        return AgentEvent::finish_ordered;
    }
    if (const auto* ends = std::get_if<RankEnds>(&message))
        known_.ranks.insert(known_.ranks.end(), ends->ends.begin(), ends->ends.end());
    return std::nullopt;
}

AgentEvent JobKnowledge::learn_failure(const Failure& failure) {
    own_failure_ = failure;
    return AgentEvent::worker_failed;
}

AgentEvent JobKnowledge::learn_signal(int signal, bool impatient) {
    if (known_.signal == 0) known_.signal = signal;
    interrupted_ = interrupted_ || signal == SIGINT;
    hurried_ = hurried_ || impatient;
    return hurried_ ? AgentEvent::interrupted_again : AgentEvent::signal_received;
}

std::string JobKnowledge::notice_of(int signal, AgentState state, const LaunchOptions& options) const {
    using enum AgentState;
    const bool is_begun = state == stopping || state == stopping_alone || state == stopping_leaderless;
    if (!is_begun && state != running && state != draining) return {};
    const bool is_interrupt = signal == SIGINT;
    if (is_interrupt ? interrupted_ : known_.signal != 0) return {};
    const auto& cause = known_.first_failure;
    const bool is_told = cause && cause->kind == Failure::Kind::signalled;
    const int first = is_begun ? (is_told ? cause->signal : 0) : signal;
    // An agent that others were started with has it from the starter, which passes it on to each of them.
    const bool is_one_of_many = options.nnodes > 1 && !options.is_started && !options.shares_screen;
    const bool is_of_node = state == stopping_alone || (is_one_of_many && options.elasticity.is_elastic());
    const int ranks = is_of_node ? static_cast<int>(options.workers.size()) : known_.round.world_size;
    if (ranks == 0 || options.grace_period.count() == 0 || !speaks_for_all(options)) return {};
    return to_text(StopNotice{.ranks = ranks,
                              .is_of_node = is_of_node,
                              .signal = first,
                              .grace_period = options.grace_period,
                              .is_interrupt = is_interrupt,
                              .is_impatience_local = is_one_of_many});
}

AgentEvent JobKnowledge::learn_time_is_over(const std::string& reason) {
    if (known_.signal == 0) {
        known_.signal = SIGTERM;
        known_.signal_reason = reason;
    }
    return AgentEvent::signal_received;
}

AgentEvent JobKnowledge::learn_refusal(const Refused& refused) {
    known_.refusal = refused;
    return AgentEvent::refused;
}

bool JobKnowledge::learn_loss(const CoordinatorLoss& loss, const LaunchOptions& options) {
    if (loss.kind == CoordinatorLoss::Kind::leaderless) known_.no_successor = loss.cause;
    if (known_.first_failure) return false;
    const bool is_own = loss.kind == CoordinatorLoss::Kind::given_up;
    known_.first_failure = Failure{.kind = Failure::Kind::node_lost,
                                   .node_rank = is_own ? options.node_rank : known_.round.coordinator_rank,
                                   .host = is_own ? host_name() : options.master.host,
                                   .exit_code = kExitUnavailable,
                                   .message = loss.cause};
    return true;
}

std::optional<ControlMessage> JobKnowledge::message_for(AgentAction action) const {
    const int round = known_.round.round;
    if (action == AgentAction::report_success) return WorkersSucceeded{round};
    if (action == AgentAction::report_failure) return WorkerFailed{round, *own_failure_};
    if (action == AgentAction::report_signal || action == AgentAction::tell_signal)
        return AgentSignalled{round, known_.signal, known_.signal_reason};
    return std::nullopt;
}

int JobKnowledge::stop_signal() const {
    const auto& cause = known_.first_failure;
    return cause && cause->kind == Failure::Kind::signalled ? cause->signal : SIGTERM;
}

std::string JobKnowledge::stop_reason() const {
    if (const auto& cause = known_.first_failure ? known_.first_failure : own_failure_)
        return ": " + to_text(*cause);
    if (!known_.signal_reason.empty()) return ": " + known_.signal_reason;
    return known_.signal != 0 ? ": asked to by " + signal_text(known_.signal) : std::string();
}

AgentStatus JobKnowledge::status(AgentState state, std::vector<WorkerStatus> workers) const {
    const RoundReady& round = known_.round;
    return {.state = std::string(to_text(state)),
            .job_id = round.job_id,
            .round = round.round,
            .restart_count = round.restart_count,
            .max_restarts = round.max_restarts,
            .world_size = round.world_size,
            .workers = std::move(workers)};
}

JobEnding JobKnowledge::ending() const {
    JobEnding ending = known_;
    if (!ending.first_failure) ending.first_failure = own_failure_;
    return ending;
}

}  // namespace ddprun::inline launch
