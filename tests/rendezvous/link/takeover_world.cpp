#include "tests/rendezvous/link/takeover_world.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"

namespace ddprun {

using namespace std::chrono_literals;

TakeoverWorld::TakeoverWorld(unsigned seed, Decider decider)
    : random_(seed),
      machines_(pick(2, 6)),
      are_alike_(seed % 2 == 1),
      by_etcd_(decider == Decider::etcd),
      network_(random_, machines_),
      register_(machines_) {
    min_nodes_ = pick(0, 3) == 0 ? 0 : pick(1, machines_);
    max_restarts_ = min_nodes_ == 0 ? pick(1, 3) : pick(0, 3);
    spares_ = min_nodes_ > 0 && pick(0, 3) == 0 ? pick(0, machines_ - min_nodes_) : 0;
    agents_.resize(static_cast<std::size_t>(machines_));
    next_jumps_.resize(agents_.size());
    for (int machine = 0; machine < machines_; ++machine) clocks_.emplace_back(random_);
    for (int machine = 0; machine < machines_; ++machine) {
        at(machine).where = {machine, -1};
        be_born(machine);
    }
}

Hello TakeoverWorld::hello_of(const SimulatedAgent& agent) const {
    Hello one = hello(kUnnumbered, machines_);
    one.min_nodes = min_nodes_;
    one.meeting_address = "gpu" + std::to_string(agent.where.machine);
    one.meeting_port = port_of(agent.where);
    one.host = are_alike_ ? "localhost" : one.meeting_address;
    one.pid = are_alike_ ? 1 : 100 + agent.where.life;
    one.nonce = are_alike_ ? static_cast<std::uint64_t>(one.meeting_port) : 0;
    one.grace_ms = static_cast<int>(kSimulatedLostGrace.count());
    return one;
}

CoordinatorOptions TakeoverWorld::options_of(const SimulatedAgent& agent) const {
    CoordinatorOptions options{.version = "1", .nnodes = machines_};
    if (min_nodes_ > 0) options.elasticity.min_nodes = min_nodes_;
    options.elasticity.spares = spares_;
    options.elasticity.last_call = 3s;
    options.join_timeout = kSimulatedJoin;
    options.heartbeat = kSimulatedHeartbeat;
    options.restarts = {.max_restarts = max_restarts_, .min_uptime = 0ms};
    options.own_agent = hello_of(agent);
    options.failover = true;
    options.records_rounds = by_etcd_;
    return options;
}

SimulatedAgent* TakeoverWorld::living(Where where) {
    SimulatedAgent& agent = at(where.machine);
    return agent.where == where && agent.alive && !agent.done ? &agent : nullptr;
}

void TakeoverWorld::be_born(int machine) {
    const Where where{machine, at(machine).where.life + 1};
    at(machine) = SimulatedAgent{};
    SimulatedAgent& agent = at(machine);
    agent.where = where;
    agent.alive = true;
    agent.memory = std::make_unique<JobMemory>(kUnnumbered);
    agent.next_step = time_of(agent) + std::chrono::milliseconds(pick(0, 200));
    agent.join_by = time_of(agent) + kSimulatedJoin;
    if (machine == 0 && !by_etcd_) host(agent, std::nullopt);
}

// Its guardian needs a moment.
void TakeoverWorld::die(SimulatedAgent& agent) {
    if (agent.stands_still(now_)) return;
    agent.alive = false;
    if (agent.workers)
        agent.workers_end = std::min(agent.stopping ? agent.workers_end : TimePoint::max(),
                                     time_of(agent) + std::chrono::milliseconds(pick(0, 500)));
    agent.stopping = agent.workers;
    agent.stubborn = false;
    stop_hosting(agent);
    hang_up(agent);
}

void TakeoverWorld::stand_still(std::chrono::milliseconds longest, bool all) {
    const auto until = now_ + std::chrono::milliseconds(pick(100, static_cast<int>(longest.count())));
    const int offset = pick(0, 1) == 0 ? 0 : static_cast<int>(kSimulatedHeartbeat.count()) / 2;
    for (SimulatedAgent& agent : agents_) {
        if (all || pick(0, 1) == 0) agent.stands_until = until + std::chrono::milliseconds(pick(0, offset));
    }
}

bool TakeoverWorld::is_between() {
    return std::any_of(network_.all().begin(), network_.all().end(), [](const auto& entry) {
        const SimulatedNetwork::Connection& one = entry.second;
        return one.caller == one.host && !one.to_caller.empty();
    });
}

void TakeoverWorld::fault() {
    const int what = pick(0, 1500);
    SimulatedAgent& agent = at(pick(0, machines_ - 1));
    if (what < 6) network_.cut_at_random();
    if (what >= 6 && what < 16) network_.heal();
    if (what == 16 || what == 17) agent.frozen_until = now_ + std::chrono::milliseconds(pick(100, 12'000));
    if (what == 18 && agent.alive && !agent.done) die(agent);
    if (what == 19) jump(agent);
    if (what == 20 && at(0).alive && !at(0).done) die(at(0));
    if (what == 21) {
        for (SimulatedAgent& one : agents_) {
            if (one.is_acting && one.alive) die(one);
        }
    }
    if (what >= 46 && what < 50 && by_etcd_) register_.cut(agent.where.machine);
    if (what >= 50 && what < 58) register_.heal();
    if (what == 58 && pick(0, 3) == 0) register_.lose_data();
    if (what >= 60 && what < 62) stand_still(12s, pick(0, 1) == 0);
    const bool is_away = (!agent.alive || agent.done) && !agent.workers;
    if (what > 25 && what < 45 && is_away && !agent.is_frozen(now_)) be_born(agent.where.machine);
}

// Of one clock now and then only: what a coordinator allows for is one jump in one wait.
void TakeoverWorld::jump(const SimulatedAgent& agent) {
    const auto machine = static_cast<std::size_t>(agent.where.machine);
    if (now_ < next_jumps_[machine]) return;
    next_jumps_[machine] = now_ + 15s;
    clocks_[machine].jump(std::chrono::milliseconds(pick(0, 1) == 0 ? pick(1, 600) : pick(600, 12'000)));
}

// Late messages, of which each round, epoch and job has its own.
void TakeoverWorld::work(SimulatedAgent& agent) {
    if (!agent.workers || agent.stopping || !agent.round || calm_) return;
    const int what = pick(0, faulty_ ? 1200 : 40);
    const int round = agent.round->round;
    if (what == 0 && faulty_) {
        WorkerFailed failed = failed_with(3, agent.round->base_rank);
        failed.round = round;
        say(agent, failed);
        stop(agent);
    } else if (what == 1 && faulty_ && !agent.signalled) {
        agent.signalled = true;
        say(agent, AgentSignalled{round, 15, {}});
        stop(agent);
    } else if (what < 3 && !faulty_) {
        agent.workers = false;
        agent.said_gone = true;
        say(agent, WorkersSucceeded{round});
    }
}

void TakeoverWorld::step() {
    now_ += std::chrono::milliseconds(pick(1, 25));
    if (faulty_ && !calm_) fault();
    register_.look(now_);
    for (SimulatedAgent& agent : agents_) {
        look_at_workers(agent);
        if (!agent.acts(now_)) continue;
        act(agent);
    }
}

void TakeoverWorld::end_faults() {
    faulty_ = calm_ = false;
    network_.heal();
    register_.heal();
    for (SimulatedAgent& agent : agents_) agent.frozen_until = agent.stands_until = {};
}

bool TakeoverWorld::over() const {
    return std::all_of(agents_.begin(), agents_.end(), [](const SimulatedAgent& agent) {
        return (agent.done || !agent.alive) && !agent.workers;
    });
}

std::string TakeoverWorld::state() const {
    std::string text = std::to_string(now_.time_since_epoch().count() / 1'000'000) + " ms";
    for (const SimulatedAgent& agent : agents_) {
        text +=
            "\n  machine " + std::to_string(agent.where.machine) + "." + std::to_string(agent.where.life) +
            (agent.alive ? "" : " dead") + (agent.done ? " done" : "") + (agent.workers ? " works" : "") +
            (agent.stopping ? " stopping" : "") + (agent.stands_still(now_) ? " stands still" : "") +
            (agent.succession ? " searching" : "") + (agent.coordinator ? " hosts" : "") +
            (agent.connection ? " connected" : "") + (agent.is_ending ? " ending" : "") +
            (agent.finished ? " finished" : "") + " " + agent.job + " epoch " + std::to_string(agent.epoch) +
            " round " + (agent.round ? std::to_string(agent.round->round) : "-");
    }
    return text;
}

void TakeoverWorld::host(SimulatedAgent& agent, std::optional<MemberList> predecessor) {
    CoordinatorOptions options = options_of(agent);
    options.job_id = "job " + std::to_string(++jobs_);
    options.predecessor = std::move(predecessor);
    agent.coordinator = std::make_unique<Coordinator>(std::move(options), time_of(agent));
}

// What was said before that is read first.
void TakeoverWorld::stop_hosting(SimulatedAgent& agent) {
    if (!agent.coordinator) return;
    agent.coordinator.reset();
    agent.is_acting = agent.is_gate = false;
    agent.host_lease = {};
    agent.told_lease = {};
    std::vector<std::uint64_t> guests;
    for (const auto& [id, connection] : network_.all()) {
        if (connection.host == agent.where) guests.push_back(id);
    }
    for (const std::uint64_t id : guests) network_.close(id, true, now_);
}

void TakeoverWorld::deliver(SimulatedAgent& host, const Coordinator::Outbox& outbox) {
    const RoundLease lease{host.coordinator->round(), host.coordinator->lease_end()};
    if (host.hosts() && std::exchange(host.told_lease, lease) != lease) {
        host.host_lease.learn(lease);
        host.guard = host.coordinator->lease_end();
        host.guard_is_final = false;
    }
    for (const auto& outgoing : outbox) {
        ++messages_;
        network_.say(outgoing.to, false, outgoing.message, now_);
        if (outgoing.close_after) network_.close(outgoing.to, true, now_);
    }
}

void TakeoverWorld::serve(SimulatedAgent& host) {
    std::vector<std::uint64_t> guests;
    for (const auto& [id, connection] : network_.all()) {
        if (connection.host == host.where) guests.push_back(id);
    }
    for (const std::uint64_t id : guests) {
        while (const auto packet = network_.arrived(id, true, now_)) {
            if (packet->message) {
                deliver(host, host.coordinator->receive(id, *packet->message, time_of(host)));
            } else {
                network_.close(id, true, now_);
                deliver(host, host.coordinator->closed(id, time_of(host), true));
                break;
            }
        }
        // It closed this itself.
        if (network_.find(id) == nullptr || !network_.find(id)->host_open)
            deliver(host, host.coordinator->closed(id, time_of(host), true));
    }
    const auto deadline = host.coordinator->next_deadline();
    const TimePoint time = time_of(host);
    if (deadline && time >= *deadline) deliver(host, host.coordinator->tick(time));
    if (by_etcd_) return hold(host);
    if (host.is_acting && time >= host.next_beacon) shine(host);
}

void TakeoverWorld::shine(SimulatedAgent& host) {
    host.next_beacon = time_of(host) + 1s;
    SimulatedAgent& first = at(0);
    const bool is_there = &first != &host && first.acts(now_) && first.coordinator && !first.is_acting &&
                          network_.reaches(host.where.machine, 0);
    if (!is_there) return;
    JobMoved moved{.version = "1",
                   .run_id = "none",
                   .nnodes = machines_,
                   .min_nodes = min_nodes_,
                   .command_digest = 0,
                   .address = "gpu" + std::to_string(host.where.machine),
                   .port = port_of(host.where)};
    deliver(first, first.coordinator->receive(std::uint64_t{1} << 40, moved, time_of(first)));
}

void TakeoverWorld::look_at_workers(SimulatedAgent& agent) {
    if (!agent.workers || agent.stands_still(now_)) return;
    const bool agent_acts = agent.acts(now_);
    const bool ended = agent.stopping && time_of(agent) >= agent.workers_end &&
                       (agent_acts || !agent.stubborn || !agent.alive);
    const bool is_final = agent.last_moment && time_of(agent) >= *agent.last_moment;
    const bool is_over = is_final || (agent.guard && time_of(agent) >= *agent.guard);
    if (is_over && !agent.held_since) agent.held_since = time_of(agent);
    if (!is_over && std::exchange(agent.held_since, std::nullopt)) check_alone(agent);
    const bool killed = is_over && (is_final || agent.guard_is_final ||
                                    time_of(agent) >= *agent.held_since + kSimulatedHeartbeat);
    if (ended || killed) {
        agent.killed = !agent.stopping && agent.alive;
        agent.workers = false;
        agent.stopping = true;
    }
}

// Not while its guardian holds its workers, or will before they do anything.
bool TakeoverWorld::works(const SimulatedAgent& agent) const {
    const bool is_over = (agent.guard && time_of(agent) >= *agent.guard) ||
                         (agent.last_moment && time_of(agent) >= *agent.last_moment) ||
                         (!agent.alive && time_of(agent) >= agent.workers_end);
    return agent.workers && !agent.held_since && !(agent.stands_still(now_) && is_over);
}

// The round of its workers, which run from now on.
void TakeoverWorld::check_alone(const SimulatedAgent& agent) {
    for (const SimulatedAgent& other : agents_) {
        if (!works(other) || other.job != agent.job) continue;
        INFO("machine " << agent.where.machine << " works in round " << agent.round->round << " of epoch "
                        << agent.epoch << ", while machine " << other.where.machine << " works in round "
                        << other.round->round << " of epoch " << other.epoch);
        CHECK((other.epoch == agent.epoch && other.round->round == agent.round->round));
    }
}

void TakeoverWorld::begin_round(SimulatedAgent& agent, const RoundReady& ready) {
    INFO(state());
    REQUIRE(agent.said_gone);
    REQUIRE_FALSE(agent.workers);
    const auto& list = agent.memory->members();
    REQUIRE(list);
    CHECK(list->round == ready.round);
    CHECK(ready.restart_count <= max_restarts_);
    CHECK(ready.group_world_size >= (min_nodes_ > 0 ? min_nodes_ : machines_));
    CHECK(ready.group_world_size <= machines_ - spares_);
    auto& members = memberships_[ready.job_id][list->version()];
    CHECK(members.emplace(ready.group_rank, ready).second);
    for (const auto& [rank, other] : members) {
        CHECK(other.group_world_size == ready.group_world_size);
        CHECK(rank < ready.group_world_size);
        CHECK(other.base_rank == rank);
    }
    rounds_ = std::max(rounds_, ready.round + 1);
    restarts_ = std::max(restarts_, ready.restart_count);
    agent.round = ready;
    agent.job = ready.job_id;
    agent.epoch = list->epoch;
    agent.workers = true;
    agent.held_since.reset();
    check_alone(agent);
    agent.stopping = agent.said_gone = false;
    agent.last_moment.reset();
    agent.stubborn = pick(0, 2) == 0;
    agent.killed = false;
    if (agent.hosts()) agent.guard = agent.coordinator->lease_end();
}

}  // namespace ddprun
