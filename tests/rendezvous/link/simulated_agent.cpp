// What an agent does in the world: joins, follows, looks for a coordinator, stops its workers.
#include <algorithm>

#include "tests/rendezvous/link/takeover_world.hpp"

namespace ddprun {

using namespace std::chrono_literals;

void TakeoverWorld::act(SimulatedAgent& agent) {
    listen(agent);
    if (agent.coordinator) serve(agent);
    if (std::exchange(agent.killed, false) && agent.connection) {
        WorkerFailed failed = failed_with(137, agent.round->base_rank);
        failed.round = agent.round->round;
        say(agent, failed);
    }
    if (!agent.workers && !agent.said_gone) {
        agent.said_gone = true;
        const bool is_led = agent.connection && (!agent.succession || agent.leads);
        if (is_led && agent.round) say(agent, gone(agent.round->round, false));
    }
    gives_up(agent);
    const auto late = time_of(agent) - agent.answer_by;
    if (late >= 1s) agent.answer_by = time_of(agent) + 10s;
    if (agent.connection && !agent.is_answered && time_of(agent) >= agent.answer_by)
        lose(agent, {CoordinatorLoss::Kind::broken, "no answer"});
    if (!agent.connection && !agent.is_ending && !agent.finished && time_of(agent) >= agent.next_step) {
        agent.succession ? search(agent) : join(agent);
    }
    work(agent);
    if (agent.workers || !agent.said_gone) return;
    if (agent.finished) {
        say(agent, Goodbye{});
        hang_up(agent);
        agent.is_ending = true;
    }
    // The host leaves last.
    if (agent.is_ending &&
        (!agent.coordinator || agent.coordinator->empty() || !agent.is_acting || !faulty_)) {
        if (agent.coordinator && !agent.coordinator->empty() && agent.frozen_until == TimePoint{})
            agent.frozen_until = TimePoint{1ms};
        stop_hosting(agent);
        hang_up(agent);
        if (register_.reaches(agent.where)) register_.drop(agent.where, !agent.election.wish);
        agent.done = true;
    }
}

bool TakeoverWorld::gives_up(SimulatedAgent& agent) {
    if (!agent.lease || agent.lease->is_suspended()) return false;
    if (time_of(agent) >= agent.lease->next_look()) agent.lease->look(time_of(agent));
    if (!agent.lease->is_over(time_of(agent))) return false;
    say(agent, LeaseOver{});
    lose(agent, lease_loss(*agent.lease));
    return true;
}

void TakeoverWorld::call(SimulatedAgent& agent, Where host, std::optional<Following> following) {
    if (!network_.reaches(agent.where.machine, host.machine)) {
        agent.next_step = time_of(agent) + 1s;
        return;
    }
    if (living(host) == nullptr) {
        agent.next_step = time_of(agent) + 5ms;
        return;
    }
    agent.connection = network_.connect(agent.where, host);
    agent.is_answered = false;
    agent.answer_by = time_of(agent) + (following ? kSimulatedTerms.patience() + 2s : 10s);
    agent.hello_time = time_of(agent);
    Hello hello = hello_of(agent);
    hello.following = std::move(following);
    say(agent, hello);
}

// At the first place, where it was told that the job is, or where one of those is whom it has heard of.
void TakeoverWorld::join(SimulatedAgent& agent) {
    agent.next_step = time_of(agent) + 500ms;
    if (time_of(agent) >= agent.join_by) agent.is_ending = true;
    const auto& members = agent.memory->members();
    if (members && !members->members.empty() && ++agent.roamed % (members->members.size() + 1) != 0)
        return call(agent, where_of(members->members[agent.roamed % (members->members.size() + 1) - 1]), {});
    if (by_etcd_) return campaign(agent);
    if (agent.place && living(*agent.place) == nullptr) agent.place.reset();
    if (agent.place) return call(agent, *agent.place, {});
    if (at(0).coordinator == nullptr) return;
    call(agent, at(0).where, {});
}

void TakeoverWorld::search(SimulatedAgent& agent) {
    stop_hosting(agent);
    if (by_etcd_) return claim(agent);
    const Succession::Step next = agent.succession->next(time_of(agent));
    if (next.kind == Succession::Kind::end) {
        agent.succession.reset();
        agent.is_ending = true;
        return;
    }
    if (next.kind == Succession::Kind::pause) {
        agent.next_step = time_of(agent) + Succession::kPause;
        return;
    }
    agent.called = next.member.group_rank;
    if (next.kind == Succession::Kind::host) host(agent, agent.succession->own().last);
    Following following = agent.succession->own();
    following.has_workers = agent.workers;
    call(agent, where_of(next.member), std::move(following));
}

void TakeoverWorld::hang_up(SimulatedAgent& agent) {
    if (agent.connection) network_.close(*agent.connection, false, now_);
    agent.connection.reset();
    const bool is_over = agent.lease && time_of(agent) >= agent.lease->end() + kSimulatedTerms.margin();
    if (!agent.hosts() && agent.lease) {
        agent.guard = is_over ? std::optional(time_of(agent)) : std::nullopt;
        agent.guard_is_final = is_over;
    }
    agent.lease.reset();
    agent.waiting.clear();
}

void TakeoverWorld::lose(SimulatedAgent& agent, CoordinatorLoss loss) {
    // One that was turned away still has the time that it had.
    const bool was_alone = agent.succession && !agent.leads;
    const auto guard = agent.guard;
    hang_up(agent);
    if (was_alone) agent.guard = guard;
    if (was_alone) agent.guard_is_final = true;
    agent.next_step = time_of(agent) + 5ms;
    if (agent.finished || agent.is_ending) return;
    const bool was_led = agent.leads;
    agent.leads = false;
    if (loss.kind == CoordinatorLoss::Kind::given_up) {
        agent.succession.reset();
        agent.is_ending = true;
        hasten(agent);
        return stop(agent);
    }
    const auto following = agent.memory->following();
    if (!following) return;
    hasten(agent);
    stop(agent);
    if (agent.succession) {
        if (loss.is_dead && was_led) agent.succession->note_gone(*agent.called);
        return;
    }
    const int leader = agent.memory->leader();
    if (leader == following->group_rank) {
        agent.is_ending = true;
        return;
    }
    agent.succession.emplace(*following, time_of(agent));
    if (loss.is_dead || loss.kind == CoordinatorLoss::Kind::left) agent.succession->note_gone(leader);
}

void TakeoverWorld::listen(SimulatedAgent& agent) {
    while (agent.connection) {
        const auto packet = network_.arrived(*agent.connection, false, now_);
        if (!packet) return;
        if (packet->message) {
            receive(agent, *packet->message);
        } else {
            lose(agent, {CoordinatorLoss::Kind::broken, "closed", agent.is_answered});
        }
    }
}

void TakeoverWorld::say(SimulatedAgent& agent, const ControlMessage& message) {
    ++messages_;
    if (agent.connection) network_.say(*agent.connection, true, message, now_);
}

void TakeoverWorld::follow(SimulatedAgent& agent, const Lead& lead) {
    if (!agent.succession || !agent.succession->promise(lead.epoch)) return;
    if (!std::exchange(agent.leads, true) && agent.said_gone) say(agent, gone(agent.round->round, false));
    if (agent.signalled) say(agent, AgentSignalled{agent.round->round, 15, {}});
    say(agent, Follow{lead.epoch});
}

void TakeoverWorld::receive(SimulatedAgent& agent, const ControlMessage& message) {
    agent.is_answered = true;
    if (agent.lease) agent.lease->look(time_of(agent));
    const bool is_in_doubt = agent.lease && agent.lease->is_in_doubt(time_of(agent));
    const bool is_at_once = std::holds_alternative<Heartbeat>(message) ||
                            std::holds_alternative<GivenUp>(message) ||
                            std::holds_alternative<SteppedDown>(message);
    const auto* stop = std::get_if<Stop>(&message);
    if (stop != nullptr && stop->is_awaited && (is_in_doubt || !agent.waiting.empty())) {
        say(agent, LeaseOver{});
        return lose(agent, {CoordinatorLoss::Kind::given_up, "it stood still"});
    }
    const bool begins_late = is_in_doubt && std::holds_alternative<RoundReady>(message);
    if (begins_late) say(agent, Heartbeat{Heartbeat::kAskMe});
    if (begins_late || (!agent.waiting.empty() && !is_at_once)) return agent.waiting.push_back(message);
    take(agent, message);
    if (agent.lease && !agent.hosts()) {
        agent.guard = agent.lease->end() + kSimulatedTerms.margin();
        agent.guard_is_final = false;
    }
    if (agent.lease && agent.lease->is_in_doubt(time_of(agent))) return;
    for (const ControlMessage& waiting : std::exchange(agent.waiting, {})) {
        if (agent.connection) receive(agent, waiting);
    }
}

void TakeoverWorld::take(SimulatedAgent& agent, const ControlMessage& message) {
    if (const auto* ready = std::get_if<RoundReady>(&message)) {
        if (agent.hosts() && agent.host_lease.has_ended(ready->round, time_of(agent)))
            return lose(agent, {CoordinatorLoss::Kind::given_up, "it stood still"});
        if (gives_up(agent)) return;
    }
    agent.memory->learn(message);
    const bool has_place =
        std::holds_alternative<MemberList>(message) || std::holds_alternative<Waiting>(message) ||
        std::holds_alternative<Restarting>(message) || std::holds_alternative<Parked>(message);
    if (agent.succession && has_place) {
        if (agent.called) agent.memory->learn_leader(agent.succession->own(), *agent.called);
        agent.succession.reset();
        agent.leads = false;
        if (agent.hosts() && !agent.is_acting) ++takeovers_;
        agent.is_acting = agent.is_acting || agent.hosts();
    }
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
        agent.lease.emplace(HeartbeatTerms{std::chrono::milliseconds(welcome->heartbeat_ms)},
                            agent.hello_time);
    } else if (const auto* question = std::get_if<Heartbeat>(&message)) {
        const bool is_early = question->number == 0 && !agent.waiting.empty();
        if (agent.lease && !is_early && !gives_up(agent))
            say(agent, agent.lease->answer(*question, time_of(agent)));
    } else if (const auto* lead = std::get_if<Lead>(&message)) {
        follow(agent, *lead);
    } else if (const auto* ready = std::get_if<RoundReady>(&message)) {
        begin_round(agent, *ready);
        if (agent.lease) agent.lease->started(time_of(agent));
        say(agent, Heartbeat{});
    } else if (const auto* order = std::get_if<Stop>(&message)) {
        if (order->is_awaited) hasten(agent);
        if (agent.said_gone && agent.round) say(agent, gone(agent.round->round, true));
        stop(agent);
    } else if (std::holds_alternative<Finish>(message) || std::holds_alternative<Refused>(message)) {
        agent.finished = true;
        agent.succession.reset();
        stop(agent);
    } else if (const auto* moved = std::get_if<JobMoved>(&message)) {
        agent.place = where_of({.port = moved->port});
        agent.is_gate = agent.coordinator != nullptr;
        hang_up(agent);
        agent.next_step = time_of(agent);
    } else if (const auto* stepped_down = std::get_if<SteppedDown>(&message)) {
        lose(agent, {CoordinatorLoss::Kind::left, stepped_down->reason});
    } else if (const auto* given_up = std::get_if<GivenUp>(&message)) {
        lose(agent, {CoordinatorLoss::Kind::given_up, given_up->reason});
    }
}

void TakeoverWorld::stop(SimulatedAgent& agent) {
    if (!agent.workers || agent.stopping) return;
    agent.stopping = true;
    const auto most = agent.last_moment ? kSimulatedLostGrace - Aftermath::kKillTime : kSimulatedGrace;
    agent.workers_end = time_of(agent) + std::chrono::milliseconds(pick(0, static_cast<int>(most.count())));
}

// The guardian knows it, too, if the agent stands still from now on.
void TakeoverWorld::hasten(SimulatedAgent& agent) {
    if (!agent.workers || agent.last_moment) return;
    const TimePoint now = time_of(agent);
    agent.workers_end = std::min(agent.workers_end, now + kSimulatedLostGrace - Aftermath::kKillTime);
    agent.last_moment = now + kSimulatedLostGrace - Aftermath::kGuardianTime;
}

}  // namespace ddprun
