// Whole jobs on simulated networks, driven by random events from printed seeds.
#include <algorithm>
#include <random>
#include <set>

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

// A job on a network that delays, reorders between agents, and cuts connections. Each step one random thing
// happens.
struct Simulation {
    explicit Simulation(unsigned seed) : random(seed) {
        nnodes = pick(1, 40);
        max_restarts = pick(0, 3);
        coordinator.emplace(
            make_restarting(nnodes, {.max_restarts = max_restarts, .backoff_max = 2s, .min_uptime = 0ms}));
        for (int rank = 0; rank < nnodes; ++rank) agents.push_back({.workers = pick(1, 8)});
    }

    struct Agent {
        int workers = 1;
        std::uint64_t connection = 0;
        bool dead = false, stopped = false, said_gone = false, succeeded = false;
        std::optional<RoundReady> round;
        std::optional<Stop> stop;
        std::optional<Finish> finish;
    };

    int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

    void deliver(const Coordinator::Outbox& outbox) {
        for (const auto& outgoing : outbox) {
            for (Agent& agent : agents) {
                if (agent.connection != outgoing.to || agent.dead) continue;
                if (const auto* ready = std::get_if<RoundReady>(&outgoing.message)) {
                    CHECK((agent.round ? agent.round->round + 1 : 0) == ready->round);
                    CHECK(ready->restart_count == ready->round);
                    CHECK(ready->restart_count <= max_restarts);
                    agent.round = *ready;
                    agent.stop.reset();
                    agent.said_gone = agent.succeeded = false;
                }
                if (std::holds_alternative<Restarting>(outgoing.message)) first.reset();
                if (const auto* stop = std::get_if<Stop>(&outgoing.message)) agent.stop = *stop;
                if (const auto* finish = std::get_if<Finish>(&outgoing.message)) agent.finish = *finish;
            }
        }
    }

    // One random event of one random agent; nothing if that agent has nothing to do now.
    void step() {
        const int index = pick(0, nnodes - 1);
        Agent& agent = agents[static_cast<std::size_t>(index)];
        if (agent.dead) return;
        now += std::chrono::milliseconds(pick(0, 50));
        deliver(coordinator->tick(now));
        if (agent.connection == 0) {
            agent.connection = ++last_connection;
            return deliver(coordinator->receive(agent.connection, hello(index, nnodes, agent.workers), now));
        }
        if (!agent.round) {
            if (pick(0, 9) != 0) return;
            deliver(coordinator->closed(std::exchange(agent.connection, 0),
                                        now));  // lost before the round: joins again
            return;
        }
        if (agent.finish) {
            deliver(coordinator->receive(agent.connection, Goodbye{}, now));
            agent.dead = true;
            return;
        }
        if (agent.stop && !agent.said_gone) {
            agent.said_gone = true;
            return deliver(
                coordinator->receive(agent.connection, gone(agent.round->round, pick(0, 1) == 0), now));
        }
        if (agent.said_gone || agent.succeeded || agent.stop) return;
        const int what = pick(0, 199);
        if (what == 0) {
            agent.dead = true;
            note_first(Failure::Kind::node_lost, index);
            deliver(coordinator->closed(agent.connection, now));
        } else if (what == 1) {
            note_first(Failure::Kind::worker_failed, index);
            WorkerFailed failed = failed_with(3, agent.round->base_rank);
            failed.round = agent.round->round;
            deliver(coordinator->receive(agent.connection, failed, now));
        } else if (what == 2) {
            note_first(Failure::Kind::signalled, index);
            deliver(coordinator->receive(agent.connection, AgentSignalled{agent.round->round, 15}, now));
        } else if (what < 60) {
            agent.succeeded = true;
            deliver(coordinator->receive(agent.connection, WorkersSucceeded{agent.round->round}, now));
        }
    }

    void note_first(Failure::Kind kind, int node) {
        if (!first) first = std::pair(kind, node);
    }

    bool over() const {
        return std::all_of(agents.begin(), agents.end(), [](const Agent& agent) { return agent.dead; });
    }

    std::mt19937 random;
    int nnodes = 0, max_restarts = 0;
    std::optional<Coordinator> coordinator;
    std::vector<Agent> agents;
    std::uint64_t last_connection = 0;
    TimePoint now{};
    std::optional<std::pair<Failure::Kind, int>> first;
};

}  // namespace

TEST_CASE("simulated networks: every job ends, with one truth on every agent") {
    for (unsigned seed = 1; seed <= 300; ++seed) {
        INFO("seed " << seed);
        Simulation simulation(seed);
        constexpr int kSteps = 200'000;
        for (int i = 0; i < kSteps && !simulation.over(); ++i) simulation.step();
        REQUIRE(simulation.over());
        REQUIRE(simulation.coordinator->empty());

        std::set<int> ranks;
        for (const auto& agent : simulation.agents) {
            REQUIRE(agent.round);
            for (int i = 0; i < agent.workers; ++i) ranks.insert(agent.round->base_rank + i);
            if (!agent.finish) continue;
            CHECK(agent.finish->failed == simulation.first.has_value());
            if (!simulation.first) continue;
            CHECK(agent.finish->cause.kind == simulation.first->first);
            CHECK(agent.finish->cause.node_rank == simulation.first->second);
        }
        const int world_size = simulation.agents.front().round->world_size;
        CHECK(static_cast<int>(ranks.size()) == world_size);
        CHECK(*ranks.rbegin() == world_size - 1);
    }
}

TEST_CASE("ten thousand agents cost ten thousand messages a step, not their square") {
    constexpr int kNodes = 10'000;
    Coordinator coordinator = make(kNodes);
    std::size_t messages = 0;
    for (int rank = 0; rank < kNodes; ++rank) {
        messages +=
            coordinator.receive(static_cast<std::uint64_t>(rank) + 1, hello(rank, kNodes, 8), kStart).size();
    }
    CHECK(messages == kNodes);
    CHECK(coordinator.receive(1, failed_with(1, 0), kStart).size() == kNodes);
    for (int rank = 0; rank < kNodes; ++rank) {
        messages += coordinator.receive(static_cast<std::uint64_t>(rank) + 1, gone(0, true), kStart).size();
    }
    CHECK(messages == 2 * kNodes);
}

}  // namespace ddprun
