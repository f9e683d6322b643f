#include "launcher/agent/job_knowledge.hpp"

#include <fmt/core.h>

#include <csignal>
#include <utility>

#include "launcher/agent/agent_link.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/round/worker_group.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/first_failure.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace launch {

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

void JobKnowledge::learn_doings(const WorkersGone& gone) {
    for (auto* failure : {&known_.first_failure, &own_failure_}) {
        if (!*failure) continue;
        (*failure)->others = worth_telling(gone.others);
        (*failure)->left = worth_telling(gone.left);
    }
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

StopCause JobKnowledge::stop_cause(int signal) const {
    return {.signal = signal,
            .failure = known_.first_failure ? known_.first_failure : own_failure_,
            .received = known_.signal,
            .reason = known_.signal_reason};
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
            .node = round.group_rank,
            .round = round.round,
            .restart_count = round.restart_count,
            .max_restarts = round.max_restarts,
            .resizes = round.resizes,
            .group_world_size = round.group_world_size,
            .world_size = round.world_size,
            .first_rank = round.base_rank,
            .workers = std::move(workers)};
}

JobEnding JobKnowledge::ending() const {
    JobEnding ending = known_;
    if (!ending.first_failure) ending.first_failure = own_failure_;
    return ending;
}

}  // namespace launch
}  // namespace ddprun
