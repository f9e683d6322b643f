#include "launcher/agent/job_ending.hpp"

#include <fmt/core.h>

#include "launcher/report/failure_cause.hpp"

namespace ddprun {
inline namespace launch {

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
    if (ending.first_failure) result.sentence = failure_sentence(options.entry_name, *ending.first_failure);
    result.message = verdict.message;
    result.restart_count = ending.round.restart_count;
    result.max_restarts = ending.round.max_restarts;
    result.resize_count = ending.round.resizes;
    if (ending.finish) result.restarts = ending.finish->restarts;
    if (ending.finish) result.resizes = ending.finish->resizes;
    return result;
}

}  // namespace launch
}  // namespace ddprun
