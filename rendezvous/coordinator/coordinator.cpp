#include "rendezvous/coordinator/coordinator.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "rendezvous/base/check.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/admission.hpp"
#include "rendezvous/coordinator/agent_claims.hpp"

namespace ddprun {
inline namespace job {
namespace {

SharedOptions shared(CoordinatorOptions options) {
    check(options.nnodes >= 1, "a job needs at least one node");
    if (options.predecessor) {
        options.job_id = options.predecessor->job_id;
        options.start_unix_s = options.predecessor->start_unix_s;
    }
    return std::make_shared<const CoordinatorOptions>(std::move(options));
}

// A time limit is meant for the job. The host can leave as long as another one may become the coordinator.
bool may_leave(const CoordinatorOptions& options, CoordinatorState state, const JobNode& node,
               const AgentSignalled& signalled) {
    const bool is_stuck =
        node.hosts && (!options.may_fail_over() || state == CoordinatorState::awaiting_return);
    return options.elasticity.is_elastic() && !is_stuck && signalled.reason.empty();
}

bool is_ours(const JobMoved& moved, const CoordinatorOptions& options) {
    const JobTerms terms = options.terms();
    return moved.version == terms.version && moved.run_id == terms.run_id && moved.nnodes == terms.nnodes &&
           moved.min_nodes == terms.min_nodes && options.own_agent &&
           moved.command_digest == options.own_agent->command.digest;
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, TimePoint now)
    : options_(shared(std::move(options))),
      state_(options_->predecessor ? CoordinatorState::electing : CoordinatorState::gathering),
      heartbeats_({options_->heartbeat}),
      last_call_(now),
      roster_(options_, now),
      round_(*options_),
      aftermath_(options_),
      leadership_(options_, now) {}

void Coordinator::say(Messages messages) {
    if (out_.empty()) {
        out_ = std::move(messages);
    } else {
        std::move(messages.begin(), messages.end(), std::back_inserter(out_));
    }
}

void Coordinator::say(ConnectionId to, ControlMessage message, bool close_after) {
    out_.push_back({to, std::move(message), close_after});
}

// Between two calls no more time has passed for certain than until the second one was due: if the clock of
// this machine jumps ahead, those who are asked, and those whose workers are given time, have not had it.
void Coordinator::look_at_clock(TimePoint now) {
    const auto due = next_deadline();
    last_call_ = now;
    if (!due || now <= *due) return;
    heartbeats_.look(now, now - *due);
    aftermath_.postpone(now - *due);
    leadership_.postpone(now - *due);
    // It stood still, and so perhaps did those who are awaited, for whatever it is. One node alone has no
    // heartbeats.
    const auto limit = heartbeats_.terms().limit;
    if (now - *due <= (limit.count() > 0 ? limit : std::chrono::milliseconds(kStandstill))) return;
    roster_.await(now);
    round_.begin_exit_wait_again(now);
}

Coordinator::Outbox Coordinator::receive(ConnectionId from, const ControlMessage& message, TimePoint now) {
    look_at_clock(now);
    if (roster_.has_released(from)) return {};
    const JobNode* node = roster_.find(from);
    const auto queued = aftermath_.queue().find(from);
    const bool is_known = node != nullptr || queued != aftermath_.queue().end();
    const auto* moved = std::get_if<JobMoved>(&message);
    if (moved != nullptr && !is_known) {
        if (is_ours(*moved, *options_)) handle(CoordinatorEvent::job_moved, {now, nullptr, &message, from});
        return std::exchange(out_, {});
    }
    const bool is_hello = std::holds_alternative<Hello>(message);
    // Nothing else has a meaning without a Hello, or from a node that was refused.
    if (is_hello == is_known) return {{from, is_hello ? said_hello_before() : said_no_hello(), true}};
    const auto* answer = std::get_if<Heartbeat>(&message);
    if (const auto question = heartbeats_.seen(from, answer != nullptr, now)) say(from, *question);
    if (queued != aftermath_.queue().end()) {
        if (const auto question = answer ? heartbeats_.answered(from, *answer) : std::nullopt)
            say(from, *question);
        if (std::holds_alternative<Suspended>(message)) excuse(queued->second, now);
        if (std::holds_alternative<Goodbye>(message)) leave_queue(from);
        return std::exchange(out_, {});
    }
    const auto* question = std::get_if<Question>(&message);
    const auto* said = std::get_if<Answer>(&message);
    if (node != nullptr && question != nullptr) say(questions_.ask(*node, *question, roster_.nodes()));
    if (node != nullptr && said != nullptr) say(questions_.answer(*node, *said));
    const auto* signalled = std::get_if<AgentSignalled>(&message);
    bool is_stale = false;
    if (node != nullptr) {
        // One that follows may not have heard of the last round.
        const int its_round = node->hello.following ? node->hello.following->last.round : round();
        // A signal is meant for the job, whatever its agent has heard of the round.
        is_stale = round_of(message).value_or(its_round) != its_round && signalled == nullptr;
        if (!is_stale && !can_be_true(message, *node)) {
            // It is no agent of ours, whoever it was let in as.
            say(from, GivenUp{"what it said cannot be true"}, true);
            lose(*node, Roster::Loss::lied, false, now);
            return std::exchange(out_, {});
        }
        if (std::holds_alternative<LeaseOver>(message)) round_.note_lease_over(roster_.run_of(*node));
        if (node->hosts && answer != nullptr) {
            leadership_.suspend_own(false);
            heartbeats_.stand_still(false, now);
        }
        if (state_ == CoordinatorState::running) leadership_.hear_of_round(from, message, round());
    }
    auto event = event_of(message);
    if (signalled != nullptr) {
        round_.replace_resize(failure_of(*node, &message, heartbeats_.terms()));
        if (may_leave(*options_, state_, *node, *signalled)) {
            event = CoordinatorEvent::node_leaves;
        } else {
            aftermath_.cancel();
        }
    }
    if (event && !is_stale) handle(*event, {now, node, &message, from});
    return std::exchange(out_, {});
}

Coordinator::Outbox Coordinator::closed(ConnectionId connection, TimePoint now, bool closed_there) {
    look_at_clock(now);
    leave_queue(connection);
    roster_.forget_released(connection);
    if (const JobNode* node = roster_.find(connection)) lose(*node, Roster::Loss::closed, closed_there, now);
    look_for_doubt(now);
    return std::exchange(out_, {});
}

void Coordinator::lose(const JobNode& node, Roster::Loss loss, bool closed_there, TimePoint now) {
    // Workers die with their agent, but outlive a connection that only broke. One that has given this side up
    // while it stood still has said so, which the system may have thrown away: what was asked too late is
    // answered by a reset.
    const bool agent_is_dead = closed_there && !node.run.gave_up && !heartbeats_.is_in_doubt();
    say(questions_.lose(node, "the connection to it broke"));
    roster_.lose(node, loss, agent_is_dead);
    heartbeats_.remove(node.connection);
    const bool runs = state_ == CoordinatorState::running || state_ == CoordinatorState::stopping;
    if (runs && !node.run.is_gone) {
        // Where only the connection broke, its agent may notice when its lease is over, and not before.
        const bool has_noticed = loss == Roster::Loss::silent || node.run.gave_up;
        const auto notice = has_noticed ? std::chrono::milliseconds(0) : heartbeats_.terms().patience();
        aftermath_.await_workers(
            now + (agent_is_dead ? kKillTime : notice + Aftermath::lost_grace(node.hello.grace_ms)));
    }
    if (state_ == CoordinatorState::awaiting_return) roster_.plan_status(now, true);
    const bool may_go_on = state_ == CoordinatorState::pausing ||
                           state_ == CoordinatorState::awaiting_return ||
                           state_ == CoordinatorState::recording;
    const Failure failure = failure_of(node, nullptr, heartbeats_.terms());
    // Then it is this that keeps the job from going on.
    if (may_go_on && round_.cause()->kind != Failure::Kind::node_lost) round_.set_cause(failure);
    round_.replace_resize(failure);
    if (round_.has_run()) {
        const auto member = leadership_.lose_member(node, agent_is_dead);
        if (member.news) say(to_all(roster_.nodes(), *member.news));
        if (!member.obstacle.empty()) {
            aftermath_.note_obstacle(member.obstacle);
            if (!runs) round_.set_cause(*leadership_.minority_cause());
        }
    }
    if (state_ == CoordinatorState::stopping && leadership_.limit_own_end(roster_, now))
        say(to_all(roster_.nodes(), Stop{round(), *round_.cause(), true}));
    const bool is_minority = leadership_.minority_cause() && state_ != CoordinatorState::stopping;
    // One that is done with this round may begin another one.
    const bool may_be_outdone =
        options_->records() && node.run.ended && !agent_is_dead && state_ == CoordinatorState::running;
    if (is_minority || may_be_outdone) return handle(CoordinatorEvent::quorum_lost, {now, &node});
    handle(node.run.ended ? CoordinatorEvent::ended_node_lost : CoordinatorEvent::node_lost, {now, &node});
}

Coordinator::Outbox Coordinator::tick(TimePoint now) {
    look_at_clock(now);
    if (state_ != CoordinatorState::over) {
        // Asks the agents whether they are there, and gives up those that have not said so for too long.
        HeartbeatWatch::Turn turn = heartbeats_.tick(now);
        say(as_messages(turn.questions));
        for (const ConnectionId agent : turn.lost) {
            say(agent, GivenUp{silence_text(options_->heartbeat)}, true);
            leave_queue(agent);
            if (const JobNode* node = roster_.find(agent)) lose(*node, Roster::Loss::silent, false, now);
        }
    }
    look_for_doubt(now);
    if (state_ == CoordinatorState::electing) {
        if (now < leadership_.election_end()) return std::exchange(out_, {});
        const auto obstacle = leadership_.why_not_elected(roster_.nodes());
        if (obstacle) aftermath_.note_obstacle(*obstacle);
        handle(obstacle ? CoordinatorEvent::election_over : CoordinatorEvent::elected, {now});
    } else if (state_ == CoordinatorState::pausing && now >= aftermath_.pause_end()) {
        handle(CoordinatorEvent::pause_over, {now});
    } else if (state_ == CoordinatorState::judging && now >= aftermath_.judgement_deadline()) {
        handle(CoordinatorEvent::judgement_overdue, {now});
    } else if (state_ == CoordinatorState::running && round_.is_exit_wait_due(now)) {
        handle(CoordinatorEvent::exit_wait_due, {now});
    } else if (const auto due = roster_.due(now)) {
        if (due == CoordinatorEvent::last_call_over)
            begin_first_round(now);
        else
            handle(*due, {now});
    }
    return std::exchange(out_, {});
}

std::optional<Coordinator::TimePoint> Coordinator::next_deadline() const {
    if (state_ == CoordinatorState::over || state_ == CoordinatorState::moved) return std::nullopt;
    std::optional<TimePoint> deadline = heartbeats_.next_deadline();
    const auto at_latest = [&deadline](TimePoint time) {
        deadline = std::min(deadline.value_or(time), time);
    };
    if (state_ == CoordinatorState::electing) at_latest(leadership_.election_end());
    if (state_ == CoordinatorState::pausing) at_latest(aftermath_.pause_end());
    if (state_ == CoordinatorState::judging) at_latest(aftermath_.judgement_deadline());
    const bool gathers = state_ == CoordinatorState::gathering ||
                         state_ == CoordinatorState::awaiting_return || state_ == CoordinatorState::recording;
    if (gathers) at_latest(roster_.deadline());
    if (state_ == CoordinatorState::running && round_.exit_wait_deadline())
        at_latest(*round_.exit_wait_deadline());
    const bool looks =
        heartbeats_.terms().limit.count() > 0 &&
        (heartbeats_.next_deadline() || aftermath_.workers_gone() || leadership_.awaits_notice());
    // A jump that is shorter than that nobody sees, and it is less than what agents act before.
    if (looks) at_latest(last_call_ + heartbeats_.terms().margin());
    return deadline;
}

std::optional<Coordinator::TimePoint> Coordinator::lease_end() const {
    const bool stops = state_ == CoordinatorState::stopping;
    if (!stops && state_ != CoordinatorState::running) return std::nullopt;
    return leadership_.lease_end(heartbeats_, stops);
}

Coordinator::Outbox Coordinator::learn(const RecordNews& news, TimePoint now) {
    const bool is_wished = leadership_.learn(news);
    const bool records = state_ == CoordinatorState::recording;
    switch (news.kind) {
        case RecordNews::Kind::recorded:
            if (is_wished) handle(CoordinatorEvent::recorded, {now});
            break;
        case RecordNews::Kind::trouble:
            if (records)
                aftermath_.note_obstacle(fmt::format(
                    "{} s have passed (--join-timeout), and etcd does not say whether another node leads the job: {}",
                    std::chrono::duration_cast<std::chrono::seconds>(options_->join_timeout).count(),
                    news.cause));
            break;
        case RecordNews::Kind::refused:
            if (!is_wished || !records) break;
            aftermath_.note_obstacle(news.cause);
            handle(CoordinatorEvent::deposed, {now});
            break;
    }
    return std::exchange(out_, {});
}

bool Coordinator::has_taken(ConnectionId connection) const {
    return roster_.find(connection) != nullptr || aftermath_.queue().contains(connection) ||
           roster_.has_released(connection);
}

bool Coordinator::empty() const {
    return state_ == CoordinatorState::over && roster_.is_empty() && aftermath_.queue().empty();
}

// Node 0's own agent is a thread of the process that asks.
void Coordinator::watch(ConnectionId from, const Hello& hello, TimePoint now) {
    if (options_->heartbeat.count() == 0 || options_->is_own(hello) || heartbeats_.has(from)) return;
    say(from, Welcome{.heartbeat_ms = options_->heartbeat.count()});  // the rest the service knows
    heartbeats_.add(from, now);
}

// The host's own agent stops with this coordinator, so everybody has to know, and before it does.
void Coordinator::excuse(const JobNode& node, TimePoint now) {
    heartbeats_.excuse(node.connection, TimePoint::max());
    if (node.hosts) leadership_.suspend_own(true);
    if (options_->is_own(node.hello)) {
        for (Outgoing& told : to_everybody(roster_.nodes(), aftermath_.queue(), Suspended{})) {
            if (told.to != node.connection) say(told.to, std::move(told.message));
        }
        heartbeats_.stand_still(true, now);
    }
    say(node.connection, Suspended{});
}

// This process stood still, and has not been left: one that leads nobody yet cannot be. As etcd decides, each
// member that may live can be the one that goes on.
void Coordinator::look_for_doubt(TimePoint now) {
    if (state_ == CoordinatorState::over || !heartbeats_.is_in_doubt()) return;
    const bool is_left = leadership_.may_be_outdone() || !leadership_.is_sure(roster_, heartbeats_, now);
    if (!round_.has_run() || !is_left) say(as_messages(heartbeats_.settle(now)));
}

// Those who wait for a place may have one now.
void Coordinator::forget(const JobNode& node, TimePoint now) {
    roster_.forget(node, now);
    makes_sure_ = false;
    for (const JobNode& next : aftermath_.take_from_queue(aftermath_.queue().size())) {
        const bool gathers = state_ == CoordinatorState::gathering;
        gathers ? admit(next.connection, next.hello, now) : enqueue(next.connection, next.hello, now);
    }
}

// A node that has died without a word is noticed late, and the round would begin with it. Who has claimed its
// place is told at once that it is there.
void Coordinator::look_who_is_there(const JobNode& node, TimePoint now) {
    std::vector<JobNode> doubles;
    for (const auto& [connection, other] : aftermath_.queue()) {
        if (node.claim && other.claim == node.claim && heartbeats_.has_answered(node.connection))
            doubles.push_back(other);
    }
    for (const JobNode& other : doubles) {
        leave_queue(other.connection);
        say(roster_.refuse(other.connection, other.hello, *roster_.reason_against(other.hello)));
    }
    const bool may_be_all = makes_sure_ && heartbeats_.answers() + 1 >= roster_.nodes().size();
    if (may_be_all && are_heard(roster_.nodes(), heartbeats_, makes_sure_, now)) begin_first_round(now);
}

void Coordinator::leave_queue(ConnectionId from) {
    if (aftermath_.leave_queue(from)) heartbeats_.remove(from);
}

void Coordinator::note_leaving(const JobNode& node, const ControlMessage& message, TimePoint now) {
    const auto& signalled = std::get<AgentSignalled>(message);
    if (!may_leave(*options_, state_, node, signalled)) return;
    roster_.note_leaving(node, signalled.signal);
    aftermath_.await_workers(now + Aftermath::kSignalsTogether);
    if (state_ == CoordinatorState::awaiting_return) release_leavers();
}

}  // namespace job
}  // namespace ddprun
