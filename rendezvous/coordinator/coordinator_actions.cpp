// Here each action of the coordinator's table is carried out, with the four values that know and decide.
#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
inline namespace job {
namespace {

// It has workers of a round of another coordinator's, and comes again when they are gone.
bool has_workers_left(const Hello& hello) { return hello.following && hello.following->has_workers; }

SteppedDown others_went_on() { return {.reason = "the others have gone on"}; }

std::int64_t seconds(std::chrono::milliseconds time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

Waiting waiting_of(const Roster& roster, const Aftermath& aftermath) {
    return roster.waiting(aftermath.present(roster.nodes()), aftermath.queue());
}

// The node with the lowest number says it, since one that shares node 0's machine may have taken another way.
std::string reached_at(int host, const JobNodes& nodes) {
    const auto other =
        std::find_if(nodes.begin(), nodes.end(), [host](const auto& entry) { return entry.first != host; });
    return other == nodes.end() ? std::string() : other->second.hello.reached_at;
}

// Returns what the nodes hear at the end; who wants the ends of all ranks gets one list of them.
Messages farewells_of(const JobNodes& nodes, int round, const Finish& finish) {
    Messages farewells;
    SharedEnds ends;
    for (const auto& [rank, node] : nodes) {
        if (!node.connected) continue;
        const bool wants = node.hello.wants_rank_ends;
        if (wants && !ends)
            ends = std::make_shared<const std::vector<RankEnds>>(as_messages(round, all_ends(nodes)));
        farewells.push_back({node.connection, finish, false, wants ? ends : nullptr});
    }
    return farewells;
}

}  // namespace

void Coordinator::handle(CoordinatorEvent event, const Occasion& occasion) {
    const CoordinatorStep step = next_step(state_, event);
    state_ = step.next;
    std::visit([&](auto action) { act(action, occasion); }, step.action.about);
}

void Coordinator::act(NodeAction action, const Occasion& occasion) {
    const auto& [now, node, message, from] = occasion;
    switch (action) {
        case NodeAction::admit: return admit(from, std::get<Hello>(*message), now);
        case NodeAction::refuse: {
            const auto& hello = std::get<Hello>(*message);
            const auto unfit = round_.has_run() ? std::nullopt : roster_.unfit_fault();
            const Refused late = unfit.value_or(came_too_late());
            return say(roster_.refuse(from, hello, roster_.reason_against(hello).value_or(late)));
        }
        case NodeAction::enqueue: return enqueue(from, std::get<Hello>(*message), now);
        case NodeAction::note_leaving: return note_leaving(*node, *message, now);
        case NodeAction::forget: return forget(*node, now);
        case NodeAction::release: return roster_.release(*node, false);
        case NodeAction::tell_waiting: return say(roster_.tell_waiting(waiting_of(roster_, aftermath_), now));
        case NodeAction::give_up: {
            const Waiting status = waiting_of(roster_, aftermath_);
            const std::string reason =
                fmt::format("{} after {} s{}; --join-timeout SECONDS sets how long to wait", to_text(status),
                            seconds(options_->join_timeout), present_text(status));
            return say(
                to_everybody(roster_.nodes(), aftermath_.queue(), Refused{reason, kExitUnavailable}, true));
        }
        case NodeAction::refuse_all:
            return say(to_everybody(roster_.nodes(), aftermath_.queue(), *roster_.fault_of_nodes(), true));
        case NodeAction::admit_follower: return admit_follower(from, std::get<Hello>(*message), now);
        case NodeAction::forget_follower:
            leadership_.remove_follower(node->connection);
            return roster_.remove_follower(*node);
        case NodeAction::note_follower:
            if (leadership_.note_follower(*node, std::get<Follow>(*message), roster_.nodes()))
                handle(CoordinatorEvent::elected, {now});
            return;
        case NodeAction::redirect: {
            const auto& hello = std::get<Hello>(*message);
            if (!is_stranger(hello, options_->terms())) return say(from, leadership_.moved(), true);
            return say(roster_.refuse(from, hello, *roster_.reason_against(hello)));
        }
        case NodeAction::move: {
            const auto& moved = std::get<JobMoved>(*message);
            leadership_.note_moved(moved);
            return say(to_everybody(roster_.nodes(), aftermath_.queue(), moved, true));
        }
        case NodeAction::tell_other_group: {
            // It says so again and again. Which of the two is wanted only the user knows.
            const auto& moved = std::get<JobMoved>(*message);
            if (leadership_.note_moved(moved)) return;
            return say(roster_.remark(fmt::format(
                "another group of this job's nodes goes on by itself, led from {}: this one began, or lost it, while it could not be reached; end one of the two",
                to_string(Endpoint{moved.address, static_cast<std::uint16_t>(moved.port)}))));
        }
        case NodeAction::confirm:
            if (const auto question = heartbeats_.answered(from, std::get<Heartbeat>(*message)))
                say(from, *question);
            if (state_ == CoordinatorState::gathering) return look_who_is_there(*node, now);
            // To ask at each answer how many there are would cost their square.
            if (2 * (heartbeats_.answers() + 1) < roster_.nodes().size()) return;
            look_for_doubt(now);
            if (makes_sure_ && state_ == CoordinatorState::pausing &&
                leadership_.is_sure(roster_, heartbeats_, now))
                handle(CoordinatorEvent::pause_over, {now});
            return;
        case NodeAction::excuse: return excuse(*node, now);
    }
}

void Coordinator::act(RoundAction action, const Occasion& occasion) {
    const auto& [now, node, message, from] = occasion;
    switch (action) {
        case RoundAction::start_round: return start_round(now);
        case RoundAction::resize:
            return stop(
                {.kind = Failure::Kind::resized, .host = aftermath_.queue().rbegin()->second.hello.host},
                now);
        case RoundAction::stop_all:
            if (message != nullptr && std::holds_alternative<AgentSignalled>(*message))
                note_leaving(*node, *message, now);
            // What hangs may be on another node than the one that tells of it.
            return stop(round_.tell(*node, placed_by_rank(failure_of(*node, message, heartbeats_.terms()),
                                                          roster_.nodes())),
                        now);
        case RoundAction::stop_overdue: return stop(round_.tell(*node, round_.overdue_failure(*node)), now);
        case RoundAction::suspect:
            return say(round_.suspect(*node, std::get<WorkerDying>(*message), roster_.nodes()));
        case RoundAction::contend: return round_.contend(*node, *message);
        case RoundAction::pass_on:
            if (round_.note_signal(from, std::get<NoticeSignal>(*message), now))
                say(to_all(roster_.nodes(), *message));
            return;
        case RoundAction::begin_exit_wait:
            return round_.rank_succeeded(std::get<RankSucceeded>(*message).rank, now);
        case RoundAction::exit_wait_due:
            if (round_.asks_who_runs()) return end_exit_wait(now);
            return say(round_.ask_who_runs(roster_.nodes(), now));
        case RoundAction::note_running:
            if (round_.note_running(*node, std::get<StillRunning>(*message))) end_exit_wait(now);
            return;
        case RoundAction::keep_ends:
            return round_.keep_ends(*node, roster_.run_of(*node), std::get<RankEnds>(*message));
        case RoundAction::node_succeeded:
            if (round_.node_succeeded(roster_.run_of(*node))) handle(CoordinatorEvent::all_ended, {now});
            return;
        case RoundAction::node_gone: {
            const auto* gone = message == nullptr ? nullptr : &std::get<WorkersGone>(*message);
            if (round_.node_gone(*node, roster_.run_of(*node), gone))
                handle(CoordinatorEvent::all_ended, {now});
            return;
        }
    }
}

void Coordinator::act(AftermathAction action, const Occasion& occasion) {
    const auto& [now, node, message, from] = occasion;
    switch (action) {
        case AftermathAction::none: return;
        case AftermathAction::decide:
            round_.find_cause(roster_.nodes());
            if (leadership_.minority_cause()) {
                round_.set_cause(*leadership_.minority_cause());
                return handle(CoordinatorEvent::restart_refused, {now});
            }
            if (leadership_.take_decision()) return handle(CoordinatorEvent::was_decided, {now});
            aftermath_.classify(*round_.cause(), roster_.nodes());
            if (aftermath_.wants_judgement(*round_.cause()) && roster_.host() != nullptr)
                return handle(CoordinatorEvent::judgement_wanted, {now});
            return settle(std::nullopt, now);
        case AftermathAction::ask_judge:
            return say({{roster_.host()->connection, aftermath_.ask_judge(*round_.cause(), round(), now)}});
        case AftermathAction::settle:
            if (message == nullptr) {
                say(roster_.remark(
                    fmt::format("--on-failure: no answer within {} s; ddprun decides by itself",
                                Aftermath::kJudgementTimeout.count())));
                return settle(std::nullopt, now);
            }
            // An agent that was not asked has nothing to say.
            if (node->hosts) settle(std::get<Judgement>(*message), now);
            return;
        case AftermathAction::pause:
            say(to_all(roster_.nodes(), aftermath_.pause(*round_.cause(), round(), roster_.nodes(), now)));
            if (aftermath_.pause_end() <= now) handle(CoordinatorEvent::pause_over, {now});
            return;
        case AftermathAction::go_on_pausing:
            aftermath_.go_on(aftermath_.history().resizes > leadership_.members()->resizes, now);
            if (aftermath_.pause_end() <= now) handle(CoordinatorEvent::pause_over, {now});
            return;
        case AftermathAction::begin_again: return begin_again(now);
        case AftermathAction::await_return:
            roster_.await(now);
            aftermath_.note_obstacle(fmt::format("no node has come in its place within {} s (--join-timeout)",
                                                 seconds(options_->join_timeout)));
            return say(roster_.tell_waiting(waiting_of(roster_, aftermath_), now));
        case AftermathAction::record:
            roster_.await(now);
            if (auto cause = leadership_.record(roster_.nodes(), round() + 1))
                round_.set_cause(std::move(*cause));
            return aftermath_.note_obstacle(
                "etcd does not say whether another node leads the job (--rdzv-backend)");
        case AftermathAction::take_over: return take_over(now);
        case AftermathAction::step_down: {
            // The host's own agent leaves, or nobody follows. Those who are left look for another
            // coordinator.
            const SteppedDown word =
                leadership_.stepping_down(roster_.nodes(), round_.has_run(), aftermath_.obstacle());
            if (round_.has_run()) release_leavers();
            return say(to_everybody(roster_.nodes(), aftermath_.queue(), word, true));
        }
        case AftermathAction::abort:
            round_.set_cause(failure_of(*node, message, heartbeats_.terms()));
            [[fallthrough]];
        case AftermathAction::finish:
            leadership_.finish();
            Finish finish = summary_of(roster_.nodes(), round_.cause(), round_.is_requeued());
            finish.message = aftermath_.obstacle();
            aftermath_.add_history(finish);
            say(farewells_of(roster_.nodes(), round(), finish));
            return say(to_all(aftermath_.queue(), finish));
    }
}

void Coordinator::admit(ConnectionId from, const Hello& hello, TimePoint now) {
    if (const auto refused = roster_.reason_against(hello)) {
        // Two may have been given one number; but a pod that has died without a word comes again as another
        // agent.
        const bool may_inherit = options_->heartbeat.count() > 0 && !roster_.reason_against(hello, true);
        if (!may_inherit) return say(roster_.refuse(from, hello, *refused));
        enqueue(from, hello, now);
        return say(as_messages(heartbeats_.ask(now)));
    }
    const auto unfit = roster_.learn_fitness(hello);
    if (unfit) {
        say(roster_.refuse(from, hello, *unfit));
    } else {
        if (has_workers_left(hello)) return say(from, others_went_on(), true);
        if (const JobNode* before = roster_.newcomer_before(hello)) {
            // An agent that comes again has given its other connection up.
            say(before->connection, GivenUp{"this agent came again"}, true);
            lose(*before, Roster::Loss::closed, true, now);
        }
        if (!roster_.has_seat_for(hello)) return enqueue(from, hello, now);
        watch(from, hello, now);
        say(roster_.admit(from, hello));
    }
    if (roster_.gathers_all(now)) return begin_first_round(now);
    // The newcomer hears of the others after a while; those who wait already hear of the newcomer.
    if (!unfit) roster_.plan_status(now, false);
}

void Coordinator::admit_follower(ConnectionId from, const Hello& hello, TimePoint now) {
    if (!hello.following) return enqueue(from, hello, now);
    auto refused = reason_to_refuse(hello, options_->terms(), {});
    if (!refused && hello.following->last.job_id != options_->job_id)
        refused = {"this agent has lost the coordinator of another job than the one here", kExitNotAdmitted};
    if (refused) return say(roster_.refuse(from, hello, *refused));
    const auto& nodes = roster_.nodes();
    const auto before = std::find_if(nodes.begin(), nodes.end(), [&hello](const auto& entry) {
        return is_same_agent(entry.second.hello, hello);
    });
    if (before != nodes.end()) {
        const ConnectionId other = before->second.connection;
        say(other, SteppedDown{.reason = "this agent came again"}, true);
        roster_.remove_follower(before->second);
        leadership_.remove_follower(other);
        heartbeats_.remove(other);
    }
    watch(from, hello, now);
    const JobNode& follower = roster_.add_follower(from, hello);
    say(leadership_.add_follower(follower, nodes));
    round_.follow(leadership_.members()->round);
}

// One of the same machine as a node, and with its number, waits until somebody notices the loss of that one.
void Coordinator::enqueue(ConnectionId from, const Hello& hello, TimePoint now) {
    const JobNodes& nodes = roster_.nodes();
    const bool places_change = options_->places_change() || state_ == CoordinatorState::gathering;
    auto refused = roster_.reason_against(hello, places_change);
    if (!refused && !hello.unfit.empty()) refused = UnfitNodes::refusal(hello);
    if (!refused && !places_change) refused = has_all_nodes(static_cast<int>(nodes.size()));
    if (!refused && has_workers_left(hello)) return say(from, others_went_on(), true);
    const std::string* why = aftermath_.why_left_out(hello, nodes);
    if (!refused && why != nullptr) refused = left_out_before(hello.host, *why);
    if (!refused) refused = roster_.strict_reason_against(hello);
    if (!refused && aftermath_.queue().size() == kMaxQueued) refused = too_many_wait();
    if (refused) return say(roster_.refuse(from, hello, *refused));
    if (const JobNode* before = aftermath_.queued(hello)) {
        const ConnectionId other = before->connection;
        say(other, GivenUp{"this agent came again"}, true);
        leave_queue(other);
    }
    aftermath_.enqueue(from, hello);
    watch(from, hello, now);
    if (round_.has_run() && leadership_.members()) say(from, *leadership_.members());
    if (state_ == CoordinatorState::awaiting_return) return begin_with_enough(now);
    if (state_ == CoordinatorState::gathering)
        return say(from, Parked{"another agent has its place, and may be gone without a word: this one waits "
                                "until that is known"});
    if (state_ == CoordinatorState::electing)
        return say(from, Parked{"the nodes choose another coordinator; this one waits for a place"});
    const bool can_grow = aftermath_.can_grow(nodes);
    const std::string others = fmt::format("{} node{}", nodes.size(), nodes.size() == 1 ? "" : "s");
    say(from, Parked{can_grow ? fmt::format("the job runs on {}, which stop to let this one in", others)
                              : fmt::format("the job has its {}; this one waits for a place", others)});
    if (state_ == CoordinatorState::running && can_grow) handle(CoordinatorEvent::resize_due, {now});
}

// Nodes that wait already are refused when what is known of their machines, or of the nodes there, has
// changed.
void Coordinator::refuse_unwanted() {
    std::vector<std::pair<JobNode, Refused>> unwanted;
    for (const auto& [connection, node] : aftermath_.queue()) {
        const std::string* why = aftermath_.why_left_out(node.hello, roster_.nodes());
        auto refused = why != nullptr ? std::optional(left_out_before(node.hello.host, *why))
                                      : roster_.strict_reason_against(node.hello);
        if (!refused && !options_->places_change()) refused = came_too_late();
        if (refused) unwanted.emplace_back(node, std::move(*refused));
    }
    for (const auto& [node, refused] : unwanted) {
        leave_queue(node.connection);
        say(roster_.refuse(node.connection, node.hello, refused));
    }
}

// For them the job is over, though it goes on.
void Coordinator::release_leavers() {
    Messages farewells = aftermath_.farewells(roster_.nodes(), round_.cause());
    for (const Outgoing& farewell : farewells) {
        const JobNode& leaver = *roster_.find(farewell.to);
        say(questions_.lose(leaver, "it has left the job"));
        roster_.release(leaver, true);
        leadership_.release(farewell.to);
        heartbeats_.remove(farewell.to);
    }
    say(std::move(farewells));
}

void Coordinator::begin_first_round(TimePoint now) {
    if (!are_heard(roster_.nodes(), heartbeats_, makes_sure_, now)) {
        makes_sure_ = true;
        roster_.await_answers(now + heartbeats_.terms().patience());
        return say(as_messages(heartbeats_.ask(now)));
    }
    makes_sure_ = false;
    roster_.end_gathering();
    say(roster_.seat(aftermath_.take_from_queue(roster_.free_seats())));
    if (roster_.fault_of_nodes()) return handle(CoordinatorEvent::nodes_unfit, {now});
    refuse_unwanted();
    handle(CoordinatorEvent::all_joined, {now});
}

void Coordinator::begin_again(TimePoint now) {
    const JobNodes& nodes = roster_.nodes();
    if (aftermath_.may_have_workers(now)) return aftermath_.pause_until(*aftermath_.workers_gone());
    if (!leadership_.is_sure(roster_, heartbeats_, now)) {
        aftermath_.pause_until(now + heartbeats_.terms().patience());
        if (!std::exchange(makes_sure_, true)) say(as_messages(heartbeats_.ask(now)));
        return;
    }
    makes_sure_ = false;
    if (!leadership_.holds_without_leavers(nodes)) {
        aftermath_.note_obstacle(
            "without the nodes that leave the others may go on without these (--failover)");
        return handle(CoordinatorEvent::quorum_lost, {now});
    }
    if (!aftermath_.has_enough(nodes)) {
        for (std::string& line : aftermath_.take_back_left_out(roster_)) say(roster_.remark(std::move(line)));
    }
    if (!aftermath_.has_enough(nodes)) {
        const bool is_end = somebody_leaves(nodes) || aftermath_.is_cancelled();
        return handle(is_end ? CoordinatorEvent::restart_refused : CoordinatorEvent::nodes_missing, {now});
    }
    if (roster_.host_rank() && nodes.at(*roster_.host_rank()).leaving)
        return handle(CoordinatorEvent::host_leaves, {now});
    if (leadership_.lacks_record(nodes, round() + 1)) return handle(CoordinatorEvent::record_wanted, {now});
    release_leavers();
    refuse_unwanted();
    say(roster_.seat(aftermath_.take_from_queue(roster_.free_seats())));
    handle(CoordinatorEvent::all_joined, {now});
}

// While others are awaited.
void Coordinator::begin_with_enough(TimePoint now) {
    if (!aftermath_.has_enough(roster_.nodes())) return roster_.plan_status(now, true);
    const bool can_begin = !aftermath_.may_have_workers(now) &&
                           leadership_.is_sure(roster_, heartbeats_, now) &&
                           !leadership_.lacks_record(roster_.nodes(), round() + 1);
    if (!can_begin) {
        aftermath_.pause_until(aftermath_.workers_gone().value_or(now));
        handle(CoordinatorEvent::grace_runs, {now});
        if (aftermath_.pause_end() <= now) handle(CoordinatorEvent::pause_over, {now});
        return;
    }
    say(roster_.seat(aftermath_.take_from_queue(roster_.free_seats())));
    handle(CoordinatorEvent::all_joined, {now});
}

void Coordinator::start_round(TimePoint now) {
    if (heartbeats_.is_in_doubt()) say(as_messages(heartbeats_.settle(now)));
    const std::vector<NodeRanks> ranks = round_.begin(roster_, now);
    const RoundHistory history = aftermath_.history();
    aftermath_.round_begins();
    leadership_.begin_round(roster_, history, round(), now);
    roster_.round_begins();
    const int host = roster_.host_rank().value_or(0);
    const auto& members = leadership_.members();
    for (const auto& [rank, node] : roster_.nodes()) {
        const NodeRanks& own = ranks.at(static_cast<std::size_t>(rank));
        heartbeats_.excuse(node.connection, now + kStartTimeout);
        if (members) say(node.connection, *members);
        const bool is_host = rank == roster_.host_rank();
        say(node.connection, RoundReady{.round = round(),
                                        .job_id = options_->job_id,
                                        .start_unix_s = options_->start_unix_s,
                                        .group_rank = rank,
                                        .group_world_size = static_cast<int>(ranks.size()),
                                        .place = node.place,
                                        .base_rank = own.base_rank,
                                        .world_size = own.world_size,
                                        .role_base_rank = own.role_base_rank,
                                        .role_world_size = own.role_world_size,
                                        .restart_count = history.restarts,
                                        .max_restarts = options_->restarts.max_restarts,
                                        .resizes = history.resizes,
                                        .restart_reason = aftermath_.reason_of_round(),
                                        .coordinator_rank = host,
                                        .reached_at = is_host ? reached_at(rank, roster_.nodes()) : "",
                                        .through_doors = options_->through_doors});
    }
    if (members) say(to_all(aftermath_.queue(), *members));
}

void Coordinator::stop(Failure cause, TimePoint now) {
    const bool is_awaited = leadership_.limit_own_end(roster_, now);
    say(round_.stop(std::move(cause), roster_, now, is_awaited));
    if (round_.has_ended()) handle(CoordinatorEvent::all_ended, {now});
}

void Coordinator::end_exit_wait(TimePoint now) {
    auto line = round_.end_exit_wait(roster_.nodes());
    if (!line) return;
    say(roster_.remark(std::move(*line)));
    if (const auto node = round_.overdue_node())
        handle(CoordinatorEvent::overdue, {now, &roster_.nodes().at(*node)});
}

void Coordinator::settle(const std::optional<Judgement>& judgement, TimePoint now) {
    Aftermath::Verdict verdict = aftermath_.settle(judgement, roster_, round_);
    for (std::string& line : verdict.remarks) say(roster_.remark(std::move(line)));
    handle(verdict.goes_on ? CoordinatorEvent::restart_granted : CoordinatorEvent::restart_refused, {now});
}

void Coordinator::take_over(TimePoint now) {
    Takeover takeover = leadership_.take_over(roster_.nodes(), now);
    for (const ConnectionId other : roster_.take_over(takeover.seats, *leadership_.members())) {
        // It has not answered, or was no member of that round: it is as if it came now.
        say(other, others_went_on(), true);
        heartbeats_.remove(other);
    }
    aftermath_.take_over(std::move(takeover.history));
    if (takeover.workers_gone) aftermath_.await_workers(*takeover.workers_gone);
    refuse_unwanted();
    leadership_.note_missing(roster_.nodes());
    leadership_.limit_own_end(roster_, now);
    round_.take_over(std::move(takeover.cause), roster_.nodes());
    if (round_.has_ended()) handle(CoordinatorEvent::all_ended, {now});
}

}  // namespace job
}  // namespace ddprun
