// Whole jobs on simulated networks, driven by random events from printed seeds.
#include <algorithm>
#include <random>
#include <set>

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"
#include "tests/support/sanitized.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

// A job on a network that delays, reorders between agents, and cuts connections. Each step one random thing
// happens.
struct Simulation {
    explicit Simulation(unsigned seed) : random(seed) {
        nnodes = pick(1, 40);
        max_restarts = pick(0, 3);
        CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = nnodes};
        options.heartbeat = std::chrono::seconds(pick(0, 2));
        has_heartbeats = options.heartbeat > 0s;
        options.restarts = {.max_restarts = max_restarts, .backoff_max = 2s, .min_uptime = 0ms};
        if (pick(0, 1) == 0) options.exit_wait = ExitWaitOptions{1s, false, "1"};
        coordinator.emplace(std::move(options), kStart);
        for (int rank = 0; rank < nnodes; ++rank) agents.push_back({.workers = pick(1, 8)});
    }

    struct Agent {
        int workers = 1;
        std::uint64_t connection = 0;
        bool asked = false;  // who runs
        bool dead = false, silent = false, stopped = false, said_gone = false, succeeded = false,
             told_failure = false;
        std::set<std::uint64_t> lost_peers;
        std::optional<RoundReady> round;
        std::optional<Stop> stop;
        std::optional<Finish> finish;
    };

    // A worker that was seen to end while the round ran.
    struct Suspect {
        int node = 0, rank = 0;
        bool fails = false;
    };

    int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

    void deliver(const Coordinator::Outbox& outbox) {
        for (const auto& outgoing : outbox) {
            for (Agent& agent : agents) {
                if (agent.connection != outgoing.to || agent.dead) continue;
                if (const auto* question = std::get_if<Heartbeat>(&outgoing.message)) {
                    if (!agent.silent) answers.emplace_back(agent.connection, Heartbeat{question->number});
                }
                if (std::holds_alternative<GivenUp>(outgoing.message)) {
                    CHECK(agent.silent);
                    agent.dead = true;
                    note_first(Failure::Kind::node_lost, static_cast<int>(&agent - agents.data()), -1);
                }
                if (const auto* ready = std::get_if<RoundReady>(&outgoing.message)) {
                    CHECK((agent.round ? agent.round->round + 1 : 0) == ready->round);
                    CHECK(ready->restart_count == ready->round);
                    CHECK(ready->restart_count <= max_restarts);
                    agent.round = *ready;
                    if (has_heartbeats) answers.emplace_back(agent.connection, Heartbeat{});  // workers run
                    agent.stop.reset();
                    agent.said_gone = agent.succeeded = agent.told_failure = agent.asked = false;
                    agent.lost_peers.clear();
                }
                if (const auto* restarting = std::get_if<Restarting>(&outgoing.message)) {
                    restart_causes.push_back(restarting->cause);
                }
                if (const auto* peer = std::get_if<PeerDying>(&outgoing.message)) {
                    CHECK(peer->round == agent.round->round);
                    CHECK(agent.lost_peers.insert(peer->life).second);
                    CHECK(peer->life / 100 != static_cast<std::uint64_t>(&agent - agents.data()) + 1);
                }
                if (const auto* who = std::get_if<WhoRuns>(&outgoing.message)) {
                    CHECK(who->round == agent.round->round);
                    CHECK_FALSE(std::exchange(agent.asked, true));
                }
                if (std::holds_alternative<Remark>(outgoing.message)) CHECK(&agent == agents.data());
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
        for (const auto& [from, answer] : std::exchange(answers, {}))
            deliver(coordinator->receive(from, answer, now));
        deliver(coordinator->tick(now));
        if (agent.silent) return;
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
            deliver(coordinator->receive(agent.connection, gone_with_evidence(index), now));
            return check_restart();
        }
        if (agent.said_gone || agent.succeeded || agent.stop) return;
        const int what = pick(0, 199);
        if (what == 0) {
            agent.dead = true;
            note_first(Failure::Kind::node_lost, index, -1);
            deliver(coordinator->closed(agent.connection, now));
        } else if (what == 1) {
            note_first(Failure::Kind::worker_failed, index, agent.round->base_rank);
            agent.told_failure = true;
            for (Suspect& suspect : suspects) suspect.fails |= suspect.rank == agent.round->base_rank;
            WorkerFailed failed = failed_with(3, agent.round->base_rank);
            failed.round = agent.round->round;
            deliver(coordinator->receive(agent.connection, failed, now));
        } else if (what == 2) {
            note_first(Failure::Kind::signalled, index, -1);
            deliver(coordinator->receive(agent.connection, AgentSignalled{agent.round->round, 15}, now));
        } else if (what == 3 && has_heartbeats && !suspected(index)) {
            agent.silent = true;
        } else if (what < 20) {
            die(index, agent.round->base_rank + pick(0, agent.workers - 1));
        } else if (what < 30) {
            tell_who_runs(agent);
        } else if (what < 60 && !suspected(index)) {
            agent.succeeded = true;
            deliver(coordinator->receive(agent.connection, WorkersSucceeded{agent.round->round}, now));
        }
    }

    // That somebody has ended with 0, or who has not.
    void tell_who_runs(const Agent& agent) {
        const int round = agent.round->round, rank = agent.round->base_rank;
        deliver(coordinator->receive(agent.connection,
                                     agent.asked ? ControlMessage(StillRunning{round, 1, {{rank, rank}}, 7})
                                                 : RankSucceeded{round, rank},
                                     now));
    }

    // A worker ends, or only a process of it.
    void die(int node, int rank) {
        Agent& agent = agents[static_cast<std::size_t>(node)];
        const bool itself = pick(0, 1) == 0;
        const bool known = std::any_of(suspects.begin(), suspects.end(),
                                       [rank](const Suspect& suspect) { return suspect.rank == rank; });
        if (itself && !known && !first) suspects.push_back({node, rank, pick(0, 1) == 0});
        const std::uint64_t life =
            pick(0, 3) == 0 ? 0 : (static_cast<std::uint64_t>(node) + 1) * 100 + ++lives % 100;
        deliver(
            coordinator->receive(agent.connection, WorkerDying{agent.round->round, rank, life, itself}, now));
    }

    bool suspected(int node) const {
        return std::any_of(suspects.begin(), suspects.end(),
                           [node](const Suspect& suspect) { return suspect.node == node; });
    }

    // As an agent sends it: the first of its suspects that failed, or else what it has told.
    WorkersGone gone_with_evidence(int node) {
        const Agent& agent = agents[static_cast<std::size_t>(node)];
        WorkersGone message = gone(agent.round->round, pick(0, 1) == 0);
        const auto suspect = std::find_if(suspects.begin(), suspects.end(), [node](const Suspect& one) {
            return one.node == node && one.fails;
        });
        if (!agent.told_failure && suspect == suspects.end()) return message;
        message.failure =
            failed_with(3, suspect != suspects.end() ? suspect->rank : agent.round->base_rank).failure;
        message.failure->hint = "evidence";
        return message;
    }

    struct First {
        Failure::Kind kind;
        int node, rank;
    };

    void note_first(Failure::Kind kind, int node, int rank) {
        if (!first) first = First{kind, node, rank};
    }

    // What the job's first failure is when all that is to be known is known.
    std::optional<First> true_first() const {
        if (!first || first->kind != Failure::Kind::worker_failed) return first;
        const auto suspect =
            std::find_if(suspects.begin(), suspects.end(), [](const Suspect& one) { return one.fails; });
        return suspect == suspects.end() ? first : First{first->kind, suspect->node, suspect->rank};
    }

    void check_cause(const Failure& cause) const {
        const auto expected = true_first();
        REQUIRE(expected);
        CHECK(cause.kind == expected->kind);
        CHECK(cause.node_rank == expected->node);
        CHECK(cause.rank == expected->rank);
        if (cause.kind == Failure::Kind::worker_failed) CHECK(cause.hint == "evidence");
    }

    void check_restart() {
        if (restart_causes.empty()) return;
        for (const Failure& cause : restart_causes) check_cause(cause);
        restart_causes.clear();
        // A job of fixed size waits for its lost nodes, in vain here.
        if (std::any_of(agents.begin(), agents.end(), [](const Agent& agent) { return agent.dead; })) return;
        first.reset();
        suspects.clear();
    }

    bool over() const {
        return std::all_of(agents.begin(), agents.end(), [](const Agent& agent) { return agent.dead; });
    }

    std::mt19937 random;
    int nnodes = 0, max_restarts = 0;
    bool has_heartbeats = false;  // without them a silent agent is waited for
    std::optional<Coordinator> coordinator;
    std::vector<Agent> agents;
    std::uint64_t last_connection = 0;
    TimePoint now{};
    std::optional<First> first;     // as it was told
    std::vector<Suspect> suspects;  // in the order in which the coordinator hears of them
    std::vector<Failure> restart_causes;
    std::vector<std::pair<std::uint64_t, Heartbeat>> answers;  // under way
    std::uint64_t lives = 0;
};

}  // namespace

TEST_CASE("simulated networks: every job ends, with one truth on every agent") {
    for (unsigned seed = 1; seed <= seed_count(300); ++seed) {
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
            CHECK(agent.finish->cause.has_value() == simulation.first.has_value());
            if (!simulation.first) continue;
            simulation.check_cause(agent.finish->cause.value());
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
