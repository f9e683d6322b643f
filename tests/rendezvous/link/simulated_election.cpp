// What an agent does where etcd decides who leads: as EtcdElection and RendezvousLink do it.
#include <algorithm>

#include "tests/rendezvous/link/takeover_world.hpp"

namespace ddprun {

using namespace std::chrono_literals;

// Of an agent that hosts.
void TakeoverWorld::hold(SimulatedAgent& agent) {
    SimulatedElection& election = agent.election;
    const auto& wish = agent.coordinator->wish();
    if (election.wish != wish && (wish || agent.coordinator->is_elected())) {
        election.wish = wish;
        election.is_settled = !wish;
    }
    while (!election.news.empty() && election.news.front().first <= now_) {
        const RecordNews news = election.news.front().second;
        election.news.pop_front();
        deliver(agent, agent.coordinator->learn(news, time_of(agent)));
    }
    if (now_ < election.next_turn || !register_.reaches(agent.where)) return;
    election.next_turn = now_ + std::chrono::milliseconds(pick(5, 200));
    if (register_.host() == agent.where) {
        register_.keep(agent.where, now_);
        return fulfil(agent);
    }
    const bool is_free =
        !register_.host() && (register_.record() == nullptr || register_.is_own_round(agent.where));
    if (is_free) return register_.take(agent.where, now_);
    if (agent.coordinator->is_elected()) return answer(agent, RecordNews::Kind::refused);
    if (agent.succession || !register_.host()) return;
    // Another one gathers the nodes.
    stop_hosting(agent);
    hang_up(agent);
    agent.next_step = time_of(agent);
}

void TakeoverWorld::fulfil(SimulatedAgent& agent) {
    const SimulatedElection& election = agent.election;
    if (election.is_settled) return;
    const bool may_renew = election.wish->renew_until && time_of(agent) < *election.wish->renew_until &&
                           register_.record() == nullptr;
    if (!register_.is_own_round(agent.where) && !may_renew) return answer(agent, RecordNews::Kind::refused);
    register_.write(agent.where, election.wish->record, now_);
    answer(agent, RecordNews::Kind::recorded);
}

void TakeoverWorld::answer(SimulatedAgent& agent, RecordNews::Kind kind) {
    SimulatedElection& election = agent.election;
    if (std::exchange(election.is_settled, true)) return;
    const TimePoint at = now_ + std::chrono::milliseconds(pick(0, 60));
    election.news.emplace_back(at, RecordNews{kind, election.wish->record, "told so"});
}

// Where to join: at the host, or as the host if nobody may be about to become it.
void TakeoverWorld::campaign(SimulatedAgent& agent) {
    if (!register_.reaches(agent.where)) return;
    if (const auto host = register_.host()) {
        if (*host != agent.where) stop_hosting(agent);
        return call(agent, *host, {});
    }
    if (register_.record() != nullptr) return;
    register_.take(agent.where, now_);
    host(agent, std::nullopt);
    call(agent, agent.where, {});
}

// The next step of one that has lost the host.
void TakeoverWorld::claim(SimulatedAgent& agent) {
    const Following& own = agent.succession->own();
    agent.next_step = time_of(agent) + 500ms;
    agent.called.reset();
    const auto give_up = [&agent] {
        agent.succession.reset();
        agent.is_ending = true;
    };
    if (time_of(agent) >= agent.succession->deadline()) return give_up();
    if (!register_.reaches(agent.where)) return;
    const auto is_at = [](Where where) {
        return [where](const Member& one) { return where_of(one) == where; };
    };
    const auto rank_of = [&](Where where) -> std::optional<int> {
        const auto one = std::find_if(own.last.members.begin(), own.last.members.end(), is_at(where));
        return one == own.last.members.end() ? std::nullopt : std::optional(one->group_rank);
    };
    const auto host_there = register_.host();
    if (host_there && *host_there != agent.where) {
        const auto rank = rank_of(*host_there);
        const bool is_dead = rank && std::find(own.dead.begin(), own.dead.end(), *rank) != own.dead.end();
        if (!is_dead) {
            agent.called = rank;
            Following following = own;
            following.has_workers = agent.workers;
            return call(agent, *host_there, std::move(following));
        }
    }
    if (host_there != agent.where) {
        if (register_.record() == nullptr) return give_up();
        if (!may_lead(*register_.record(), own.last)) return;
        register_.take(agent.where, now_);
        agent.election.wish = RecordWish{*register_.record(), std::nullopt};
        agent.election.is_settled = true;
    }
    agent.called = own.group_rank;
    host(agent, own.last);
    Following following = own;
    following.has_workers = agent.workers;
    call(agent, agent.where, std::move(following));
}

}  // namespace ddprun
