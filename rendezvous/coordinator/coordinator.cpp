#include "rendezvous/coordinator/coordinator.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/agent_claims.hpp"
#include "rendezvous/system/check.hpp"

namespace ddprun::inline job {
namespace {

// As its coordinator knows it, whatever the agent says.
Failure placed_on(const JobNode& node, Failure failure) {
    failure.node_rank = node.hello.node_rank;
    failure.host = node.hello.host;
    return failure;
}

std::string loss_of(const JobNode& node, const HeartbeatTerms& heartbeats) {
    if (node.silent) return silence_text(heartbeats.limit);
    if (node.lied) return fmt::format("its agent (pid {}) said what cannot be true", node.hello.pid);
    return fmt::format("the connection to its agent (pid {}) was lost", node.hello.pid);
}

// Without a message: of a node that was lost.
Failure failure_of(const JobNode& node, const ControlMessage* message, const HeartbeatTerms& heartbeats) {
    if (message == nullptr) {
        return placed_on(node, {.kind = Failure::Kind::node_lost,
                                .exit_code = kExitUnavailable,
                                .message = loss_of(node, heartbeats)});
    }
    if (const auto* failed = std::get_if<WorkerFailed>(message)) return placed_on(node, failed->failure);
    const auto& signalled = std::get<AgentSignalled>(*message);
    return placed_on(
        node, {.kind = Failure::Kind::signalled, .signal = signalled.signal, .message = signalled.reason});
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, TimePoint now)
    : options_(std::move(options)),
      policy_(options_.restarts),
      exit_wait_(options_.exit_wait),
      random_(options_.jitter_seed),
      heartbeats_({options_.heartbeat}),
      join_deadline_(now + options_.join_timeout),
      last_call_(now),
      exclusion_(options_.elasticity.exclude_after) {
    check(options_.nnodes >= 1, "a job needs at least one node");
    if (!options_.predecessor) return;
    state_ = CoordinatorState::electing;
    members_ = std::move(options_.predecessor);
    options_.job_id = members_->job_id;
    options_.start_unix_s = members_->start_unix_s;
    round_ = members_->round;
    epoch_ = members_->epoch;
    const HeartbeatTerms terms{std::chrono::milliseconds(members_->heartbeat_ms)};
    election_end_ = now + terms.patience() + kElectionTime;
    lost_to_all_ = now + terms.all_have_noticed();
}

// Between two calls no more time has passed for certain than until the second one was due: if the clock of this machine
// jumps ahead, those whose workers are given time have not had it.
void Coordinator::witness(TimePoint now) {
    const auto due = next_deadline();
    last_call_ = now;
    heartbeats_.look(now);
    if (!due || now <= *due + heartbeats_.terms().margin()) return;
    if (workers_gone_) *workers_gone_ += now - *due;
    if (lost_to_all_) *lost_to_all_ += now - *due;
}

Coordinator::Outbox Coordinator::receive(ConnectionId from, const ControlMessage& message, TimePoint now) {
    witness(now);
    if (released_.contains(from)) return {};
    JobNode* node = find(from);
    const auto queued = queue_.find(from);
    const auto* moved = std::get_if<JobMoved>(&message);
    if (moved != nullptr && node == nullptr && queued == queue_.end()) {
        if (is_ours(*moved)) handle(CoordinatorEvent::job_moved, {now, nullptr, &message, from});
        return take_out();
    }
    const bool is_hello = std::holds_alternative<Hello>(message);
    // Without a Hello, or from a node that was refused, nothing else has a meaning.
    if (is_hello == (node != nullptr || queued != queue_.end()))
        return {{from, is_hello ? said_hello_before() : said_no_hello(), true}};
    if (const auto question = heartbeats_.seen(from, now)) send(from, *question);
    if (queued != queue_.end()) {
        receive_queued(queued->second, message);
        return take_out();
    }
    // A signal is meant for the job, whatever its agent has heard of the round.
    const bool is_stale = node != nullptr &&
                          ddprun::round_of(message).value_or(round_of(*node)) != round_of(*node) &&
                          !std::holds_alternative<AgentSignalled>(message);
    if (node != nullptr && !is_stale && !can_be_true(message, *node)) {
        expel(*node, now);
        return take_out();
    }
    if (std::holds_alternative<LeaseOver>(message)) node->gave_up = true;
    if (node != nullptr && node->hosts && !std::holds_alternative<Suspended>(message)) own_suspended_ = false;
    hear_of_round(from, message);
    if (std::holds_alternative<AgentSignalled>(message))
        replace_resize(failure_of(*node, &message, heartbeats_.terms()));
    const auto event = event_of(message);
    if (event && !is_stale) handle(meaning_of(*event, node, message), {now, node, &message, from});
    return take_out();
}

Coordinator::Outbox Coordinator::closed(ConnectionId connection, TimePoint now, bool closed_there) {
    witness(now);
    leave_queue(connection);
    released_.erase(connection);
    if (JobNode* node = find(connection)) lose(*node, now, closed_there);
    look_for_doubt(now);
    return take_out();
}

void Coordinator::lose(JobNode& node, TimePoint now, bool closed_there) {
    nodes_by_connection_.erase(node.connection);
    heartbeats_.remove(node.connection);
    node.connected = false;
    const bool runs = state_ == CoordinatorState::running || state_ == CoordinatorState::stopping;
    // Workers die with their agent, but outlive a connection that only broke.
    const bool agent_is_dead = closed_there && !node.gave_up;
    if (runs && !node.is_gone) {
        // A period more for what witness() cannot see: a jump that is shorter than that, or two clocks that differ.
        const std::chrono::milliseconds grace(
            agent_is_dead ? 0 : node.hello.grace_ms + heartbeats_.terms().period().count());
        workers_gone_ = std::max(workers_gone_.value_or(now), now + grace + kKillTime);
    }
    if (state_ == CoordinatorState::awaiting_return) status_deadline_ = next_status(now);
    const bool may_go_on = state_ == CoordinatorState::pausing ||
                           state_ == CoordinatorState::awaiting_return ||
                           state_ == CoordinatorState::recording;
    // Then it is this that keeps the job from going on.
    if (may_go_on && cause_->kind != Failure::Kind::node_lost)
        cause_ = failure_of(node, nullptr, heartbeats_.terms());
    replace_resize(failure_of(node, nullptr, heartbeats_.terms()));
    node.is_dead = agent_is_dead;
    if (has_run_) lose_member(node, agent_is_dead);
    lost_silently_ = lost_silently_ || (has_run_ && !agent_is_dead);
    // One that is done with this round may begin another one.
    const bool may_be_outdone =
        records() && node.ended && !agent_is_dead && state_ == CoordinatorState::running;
    if ((minority_cause_ && state_ != CoordinatorState::stopping) || may_be_outdone)
        return handle(CoordinatorEvent::quorum_lost, {now, &node});
    handle(node.ended ? CoordinatorEvent::ended_node_lost : CoordinatorEvent::node_lost, {now, &node});
}

// It is no agent of ours, whoever it was let in as.
void Coordinator::expel(JobNode& node, TimePoint now) {
    out_.push_back({node.connection, GivenUp{"what it said cannot be true"}, true});
    node.lied = true;
    lose(node, now, false);
}

// Asks the agents whether they are there, and gives up those that have not said so for too long.
void Coordinator::beat(TimePoint now) {
    HeartbeatWatch::Turn turn = heartbeats_.tick(now);
    for (const auto& [agent, question] : turn.questions) send(agent, question);
    for (const ConnectionId agent : turn.lost) {
        out_.push_back({agent, GivenUp{silence_text(options_.heartbeat)}, true});
        leave_queue(agent);
        JobNode* node = find(agent);
        if (node == nullptr) continue;
        node->silent = true;
        lose(*node, now, false);
    }
}

Coordinator::Outbox Coordinator::tick(TimePoint now) {
    witness(now);
    if (state_ != CoordinatorState::over) beat(now);
    look_for_doubt(now);
    if (state_ == CoordinatorState::electing) {
        if (now >= election_end_) end_election(now);
    } else if (state_ == CoordinatorState::pausing && now >= pause_end_) {
        handle(CoordinatorEvent::pause_over, {now});
    } else if (state_ == CoordinatorState::judging && now >= judgement_deadline_) {
        handle(CoordinatorEvent::judgement_overdue, {now});
    } else if (state_ == CoordinatorState::running && exit_wait_.is_due(now)) {
        handle(CoordinatorEvent::exit_wait_due, {now});
    } else if (now >= join_deadline_) {
        handle(CoordinatorEvent::join_timed_out, {now});
    } else if (last_call_end_ && now >= *last_call_end_) {
        begin_first_round(now);
    } else if (status_deadline_ && now >= *status_deadline_) {
        handle(CoordinatorEvent::status_due, {now});
    }
    return take_out();
}

std::optional<Coordinator::TimePoint> Coordinator::next_deadline() const {
    if (state_ == CoordinatorState::over || state_ == CoordinatorState::moved) return std::nullopt;
    std::optional<TimePoint> deadline = heartbeats_.next_deadline();
    const auto at_latest = [&deadline](TimePoint time) {
        deadline = std::min(deadline.value_or(time), time);
    };
    if (state_ == CoordinatorState::electing) at_latest(election_end_);
    if (state_ == CoordinatorState::pausing) at_latest(pause_end_);
    if (state_ == CoordinatorState::judging) at_latest(judgement_deadline_);
    const bool gathers = state_ == CoordinatorState::gathering ||
                         state_ == CoordinatorState::awaiting_return || state_ == CoordinatorState::recording;
    if (gathers) at_latest(join_deadline_);
    if (gathers && status_deadline_) at_latest(*status_deadline_);
    if (state_ == CoordinatorState::gathering && last_call_end_) at_latest(*last_call_end_);
    if (state_ == CoordinatorState::running && exit_wait_.deadline()) at_latest(*exit_wait_.deadline());
    const bool witnesses = heartbeats_.terms().limit.count() > 0 && (workers_gone_ || lost_to_all_);
    if (witnesses) at_latest(last_call_ + heartbeats_.terms().period());
    return deadline;
}

void Coordinator::handle(CoordinatorEvent event, const Occasion& occasion) {
    const CoordinatorStep step = next_step(state_, event);
    state_ = step.next;
    carry_out(step.action, occasion);
}

void Coordinator::carry_out(CoordinatorAction action, const Occasion& occasion) {
    const auto& [now, node, message, from] = occasion;
    switch (action) {
        case CoordinatorAction::none: break;
        case CoordinatorAction::admit_follower: return admit_follower(from, std::get<Hello>(*message), now);
        case CoordinatorAction::forget_follower: return forget_follower(*node);
        case CoordinatorAction::note_follower: return note_follower(*node, std::get<Follow>(*message), now);
        case CoordinatorAction::take_over: return take_over(now);
        case CoordinatorAction::go_on_pausing: return go_on_pausing(now);
        case CoordinatorAction::abdicate: return abdicate();
        case CoordinatorAction::redirect: return redirect(from, std::get<Hello>(*message));
        case CoordinatorAction::move: return move(std::get<JobMoved>(*message));
        case CoordinatorAction::tell_other_group: return tell_other_group(std::get<JobMoved>(*message));
        case CoordinatorAction::admit: return admit(from, std::get<Hello>(*message), now);
        case CoordinatorAction::refuse: {
            const auto& hello = std::get<Hello>(*message);
            const Refused late = has_run_ ? came_too_late() : unfit_fault().value_or(came_too_late());
            return refuse(from, hello, reason_against(hello).value_or(late));
        }
        case CoordinatorAction::enqueue: return enqueue(from, std::get<Hello>(*message), now);
        case CoordinatorAction::note_leaving: return note_leaving(*node, *message, now);
        case CoordinatorAction::resize:
            return stop_for({.kind = Failure::Kind::resized, .host = queue_.rbegin()->second.hello.host},
                            now);
        case CoordinatorAction::forget: return forget(*node, now);
        case CoordinatorAction::start_round: return start_round(now);
        case CoordinatorAction::tell_waiting: return tell_waiting(now);
        case CoordinatorAction::give_up: return give_up();
        case CoordinatorAction::refuse_all: return refuse_all(*fault_of_nodes());
        case CoordinatorAction::stop_all: return stop_all(occasion);
        case CoordinatorAction::suspect: return suspect(*node, std::get<WorkerDying>(*message));
        case CoordinatorAction::contend: return contend(*node, *message);
        case CoordinatorAction::pass_on:
            requeue_ = requeue_ || std::get<NoticeSignal>(*message).requeue;
            if (!signals_.is_news(from, std::get<NoticeSignal>(*message).signal, now)) return;
            return send_all(*message);
        case CoordinatorAction::begin_exit_wait:
            return exit_wait_.ended(std::get<RankSucceeded>(*message).rank, now);
        case CoordinatorAction::exit_wait_due: return exit_wait_due(now);
        case CoordinatorAction::note_running:
            return note_running(*node, std::get<StillRunning>(*message), now);
        case CoordinatorAction::stop_overdue: return stop_overdue(occasion);
        case CoordinatorAction::keep_ends: return keep_ends(*node, std::get<RankEnds>(*message));
        case CoordinatorAction::node_succeeded:
            node->all_zero = node->is_gone = true;
            return node_ended(*node, now);
        case CoordinatorAction::node_gone: return node_gone(occasion);
        case CoordinatorAction::decide: return decide(now);
        case CoordinatorAction::ask_judge: return ask_judge(now);
        case CoordinatorAction::settle: return settle(occasion);
        case CoordinatorAction::pause: return pause(now);
        case CoordinatorAction::begin_again: return begin_again(now);
        case CoordinatorAction::await_return: return await_return(now);
        case CoordinatorAction::record: return record(now);
        case CoordinatorAction::finish: return finish();
        case CoordinatorAction::confirm:
            if (const auto question = heartbeats_.answered(from, std::get<Heartbeat>(*message)))
                send(from, *question);
            return note_answer(now);
        case CoordinatorAction::excuse: return excuse(*node);
        case CoordinatorAction::abort:
            cause_ = failure_of(*node, message, heartbeats_.terms());
            return finish();
        case CoordinatorAction::release:
            nodes_by_connection_.erase(node->connection);
            node->connected = false;
            break;
    }
}

// The host's own agent stops with this coordinator, so everybody has to know, and before it does.
void Coordinator::excuse(const JobNode& node) {
    heartbeats_.excuse(node.connection, TimePoint::max());
    if (node.hosts) own_suspended_ = true;
    for (const auto& [rank, other] : nodes_) {
        if (is_own(node.hello) && other.connected && &other != &node) send(other.connection, Suspended{});
    }
    for (const auto& [connection, other] : queue_) {
        if (is_own(node.hello)) send(connection, Suspended{});
    }
    send(node.connection, Suspended{});
}

void Coordinator::stop_all(const Occasion& occasion) {
    const auto& [now, node, message, from] = occasion;
    if (message != nullptr && std::holds_alternative<AgentSignalled>(*message))
        note_leaving(*node, *message, now);
    stop_for(failures_.tell(node->hello.node_rank, failure_of(*node, message, heartbeats_.terms())), now);
}

void Coordinator::stop_for(Failure cause, TimePoint now) {
    uptime_ = std::chrono::duration_cast<std::chrono::milliseconds>(now - round_start_);
    cause_ = std::move(cause);
    limit_own_end(now);
    awaited_ = 0;
    for (auto& [rank, node] : nodes_) {
        node.ended = !node.connected;
        if (node.connected) ++awaited_;
    }
    send_all(Stop{round_, *cause_});
    if (awaited_ == 0) handle(CoordinatorEvent::all_ended, {now});
}

// What its agent has gathered of the first failure since it was told; nothing if the node itself was lost.
void Coordinator::node_gone(const Occasion& occasion) {
    JobNode& node = *occasion.node;
    if (occasion.message != nullptr) {
        const auto& gone = std::get<WorkersGone>(*occasion.message);
        node.all_zero = gone.all_zero;
        node.is_gone = true;
        progressed_ = progressed_ || gone.progressed;
        if (gone.failure) failures_.tell(node.hello.node_rank, placed_on(node, *gone.failure));
    }
    node_ended(node, occasion.now);
}

void Coordinator::node_ended(JobNode& node, TimePoint now) {
    if (std::exchange(node.ended, true)) return;
    if (--awaited_ == 0) handle(CoordinatorEvent::all_ended, {now});
}

void Coordinator::decide(TimePoint now) {
    if (auto first = failures_.first([this](int rank) { return end_of_rank(nodes_, rank); }))
        cause_ = std::move(first);
    if (minority_cause_) {
        cause_ = std::move(minority_cause_);
        return handle(CoordinatorEvent::restart_refused, {now});
    }
    if (std::exchange(was_decided_, false)) return handle(CoordinatorEvent::was_decided, {now});
    resizing_ = is_resize() && (has_enough() || !somebody_leaves());
    if (wants_judgement()) return handle(CoordinatorEvent::judgement_wanted, {now});
    settle_by({}, now);
}

void Coordinator::pause(TimePoint now) {
    std::vector<Restart>& list = resizing_ ? resizes_ : restarts_;
    list.push_back({round_, to_text(*cause_).substr(0, kMaxReasonText), cause_->unix_time_ms});
    if (list.size() > kMaxRestartsListed) list.erase(list.begin());
    if (resizing_) ++resize_count_;
    pause_end_ = std::max(now + decision_.delay, workers_gone_.value_or(now));
    const auto delay = std::chrono::ceil<std::chrono::milliseconds>(pause_end_ - now);
    send_all(Restarting{.cause = *cause_,
                        .restart = policy_.restarts(),
                        .max_restarts = policy_.max_restarts(),
                        .delay_ms = delay.count(),
                        .resize = resizing_ ? resize_count_ : 0,
                        .nodes = static_cast<int>(present())});
    if (pause_end_ <= now) handle(CoordinatorEvent::pause_over, {now});
}

void Coordinator::finish() {
    wish_.reset();
    Finish finish = summary_of(nodes_, cause_, requeue_);
    finish.message = decision_.message;
    finish.restarts = restarts_;
    finish.resizes = resizes_;
    SharedEnds ends;
    for (const auto& [rank, node] : nodes_) {
        if (!node.connected) continue;
        const bool wants = node.hello.wants_rank_ends;
        if (wants && !ends)
            ends = std::make_shared<const std::vector<RankEnds>>(as_messages(round_, all_ends(nodes_)));
        out_.push_back({node.connection, finish, false, wants ? ends : nullptr});
    }
    for (const auto& [connection, node] : queue_) send(connection, finish);
}

void Coordinator::send_all(const ControlMessage& message) {
    for (const auto& [rank, node] : nodes_) {
        if (node.connected) send(node.connection, message);
    }
}

JobNode* Coordinator::find(ConnectionId connection) {
    auto entry = nodes_by_connection_.find(connection);
    return entry == nodes_by_connection_.end() ? nullptr : &nodes_.at(entry->second);
}

}  // namespace ddprun::inline job
