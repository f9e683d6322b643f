#include "launcher/agent/job_ending.hpp"

#include "rendezvous/job/exit_status.hpp"

namespace ddprun {

Verdict verdict_of(const JobEnding& ending) {
    if (ending.finish && !ending.finish->cause && ending.finish->exit_code == kExitPreempted)
        return {kExitPreempted, "all ranks ended with 0 after a signal of --requeue-on: requeue the job",
                true};
    if (ending.finish) return {ending.finish->exit_code, ending.finish->message, false};
    if (ending.refusal) return {ending.refusal->exit_code, ending.refusal->reason, true};
    if (ending.cause) {
        const bool signalled = ending.cause->kind == Failure::Kind::signalled;
        return {signalled ? kExitSignalBase + ending.cause->signal : ending.cause->exit_code, {}, false};
    }
    if (ending.signal == 0) return {};
    const std::string text = "ended by " + signal_text(ending.signal);
    return {kExitSignalBase + ending.signal,
            text + (ending.joined ? ": no worker is left here, but node 0 did not say how the job has ended"
                                  : " before any worker was started"),
            true};
}

ReportFacts report_facts(const JobEnding& ending, const Verdict& verdict, const std::string& entry_name) {
    ReportFacts facts{.entry_name = entry_name, .finish = ending.finish.value_or(Finish{})};
    facts.finish.cause = *ending.cause;
    facts.finish.exit_code = verdict.exit_code;
    facts.restarts = ending.round.restart_count;
    facts.max_restarts = ending.round.max_restarts;
    facts.utc_offset = ending.utc_offset;
    facts.survivors = ending.survivors;
    facts.unknown_nodes = ending.unknown_nodes;
    facts.unknown_node_count = ending.unknown_node_count;
    facts.logs = ending.logs;
    return facts;
}

JobResult job_result(const JobEnding& ending, const Verdict& verdict, const LaunchOptions& options) {
    JobResult result{
        .job_id = ending.round.job_id, .run_id = options.run_id, .entry_name = options.entry_name};
    result.host = ending.host;
    result.node_rank = options.node_rank;
    result.nnodes = options.nnodes;
    result.outcome = outcome_of(verdict.exit_code, ending.cause, ending.joined);
    result.exit_code = verdict.exit_code;
    result.message = verdict.message;
    result.first_failure = ending.cause;
    result.ranks = ending.rank_ends;
    result.restart_count = ending.round.restart_count;
    result.max_restarts = ending.round.max_restarts;
    if (ending.finish) result.restarts = ending.finish->restarts;
    result.start_unix_ms = ending.start_unix_ms;
    result.end_unix_ms = ending.end_unix_ms;
    result.survivors = ending.survivors;
    result.unknown_nodes = ending.unknown_nodes;
    result.unknown_node_count = ending.unknown_node_count;
    return result;
}

}  // namespace ddprun
