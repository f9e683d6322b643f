#include "rendezvous/coordinator.hpp"

#include <set>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using TimePoint = Coordinator::TimePoint;

const TimePoint kStart{};

Coordinator make(int nnodes, std::chrono::milliseconds join_timeout = 900s) {
    return Coordinator(
        {.version = "1", .run_id = "none", .job_id = "job", .nnodes = nnodes, .join_timeout = join_timeout},
        kStart);
}

Hello hello(int node_rank, int nnodes, int workers = 1) {
    return {.version = "1",
            .run_id = "none",
            .node_rank = node_rank,
            .nnodes = nnodes,
            .local_world_size = workers,
            .host = "gpu" + std::to_string(node_rank),
            .pid = 100 + node_rank};
}

template <class Message>
std::vector<Message> of_type(const Coordinator::Outbox& outbox) {
    std::vector<Message> found;
    for (const auto& outgoing : outbox) {
        if (const auto* message = std::get_if<Message>(&outgoing.message)) found.push_back(*message);
    }
    return found;
}

// Joins node r over connection r + 1 for each node of `workers`.
Coordinator::Outbox join_all(Coordinator& coordinator, const std::vector<int>& workers) {
    Coordinator::Outbox last;
    const int nnodes = static_cast<int>(workers.size());
    for (int rank = 0; rank < nnodes; ++rank) {
        last = coordinator.receive(static_cast<std::uint64_t>(rank) + 1,
                                   hello(rank, nnodes, workers[static_cast<std::size_t>(rank)]), kStart);
    }
    return last;
}

WorkerFailed failed_with(int exit_code, int rank) {
    Failure failure{.kind = Failure::Kind::worker_failed};
    failure.rank = rank;
    failure.exit_code = exit_code;
    return {0, failure};
}

}  // namespace

TEST_CASE("the round begins when the last node joins, in whatever order") {
    Coordinator coordinator = make(3);
    CHECK(coordinator.receive(7, hello(2, 3, 5), kStart).empty());
    CHECK(coordinator.receive(8, hello(0, 3, 2), kStart).empty());
    auto out = coordinator.receive(9, hello(1, 3, 1), kStart);
    REQUIRE(out.size() == 3);
    std::map<std::uint64_t, RoundReady> ready;
    for (const auto& outgoing : out) ready[outgoing.to] = std::get<RoundReady>(outgoing.message);
    CHECK(ready.at(8).base_rank == 0);
    CHECK(ready.at(9).base_rank == 2);
    CHECK(ready.at(7).base_rank == 3);
    for (const auto& [connection, round] : ready) {
        CHECK(round.world_size == 8);
        CHECK(round.group_world_size == 3);
        CHECK(round.job_id == "job");
    }
    CHECK(ready.at(7).group_rank == 2);
}

TEST_CASE("an agent that does not fit is refused with both values, and nothing else changes") {
    Coordinator coordinator = make(2);
    coordinator.receive(1, hello(0, 2), kStart);

    struct Case {
        Hello hello;
        std::vector<std::string> words;
    };
    auto with = [](auto change) {
        Hello changed = hello(1, 2);
        change(changed);
        return changed;
    };
    const std::vector<Case> cases = {
        {with([](Hello& h) { h.version = "2"; }), {"ddprun 2", "ddprun 1"}},
        {with([](Hello& h) { h.run_id = "other"; }), {"--rdzv-id", "other", "none"}},
        {with([](Hello& h) { h.nnodes = 3; }), {"--nnodes is 3", "--nnodes 2"}},
        {with([](Hello& h) { h.node_rank = 2; }), {"--node-rank 2", "out of range"}},
        {with([](Hello& h) { h.node_rank = -1; }), {"--node-rank -1", "out of range"}},
        {with([](Hello& h) { h.node_rank = 0; }), {"--node-rank 0", "already joined from gpu0", "pid 100"}},
        {with([](Hello& h) { h.local_world_size = 0; }), {"--nproc-per-node 0"}},
        {with([](Hello& h) { h.local_world_size = Coordinator::kMaxWorkersPerNode + 1; }),
         {"--nproc-per-node 4097"}},
    };
    std::uint64_t connection = 10;
    for (const Case& refused : cases) {
        auto out = coordinator.receive(++connection, refused.hello, kStart);
        REQUIRE(out.size() == 1);
        CHECK(out[0].to == connection);
        CHECK(out[0].close_after);
        const auto& message = std::get<Refused>(out[0].message);
        CHECK(message.exit_code == kExitNotAdmitted);
        for (const std::string& word : refused.words) CHECK_THAT(message.reason, Catch::Contains(word));
        CHECK(coordinator.closed(connection, kStart).empty());
    }
    CHECK(of_type<RoundReady>(coordinator.receive(2, hello(1, 2), kStart)).size() == 2);
    CHECK(of_type<Refused>(coordinator.receive(30, hello(1, 2), kStart)).size() == 1);
}

TEST_CASE("who waits hears who is missing: after a while, then on changes, not too often") {
    Coordinator coordinator = make(3);
    coordinator.receive(1, hello(0, 3), kStart);
    REQUIRE(coordinator.next_deadline() == kStart + Coordinator::kFirstStatusDelay);
    CHECK(coordinator.tick(kStart + 1s).empty());

    auto out = coordinator.tick(kStart + Coordinator::kFirstStatusDelay);
    REQUIRE(of_type<Waiting>(out).size() == 1);
    CHECK(to_text(of_type<Waiting>(out)[0]) == "joined 1/3, missing node 1, node 2");
    CHECK(coordinator.next_deadline() == kStart + 900s);

    const TimePoint later = kStart + Coordinator::kFirstStatusDelay + 100ms;
    coordinator.receive(2, hello(2, 3), later);
    const TimePoint due = kStart + Coordinator::kFirstStatusDelay + Coordinator::kStatusPeriod;
    REQUIRE(coordinator.next_deadline() == due);
    out = coordinator.tick(due);
    REQUIRE(of_type<Waiting>(out).size() == 2);
    CHECK(to_text(of_type<Waiting>(out)[0]) == "joined 2/3, missing node 1");

    coordinator.closed(2, due + 10s);
    out = coordinator.tick(due + 11s);
    REQUIRE(of_type<Waiting>(out).size() == 1);
    CHECK(to_text(of_type<Waiting>(out)[0]) == "joined 1/3, missing node 1, node 2");
    CHECK(coordinator.receive(3, hello(2, 3), due + 12s).empty());
    CHECK(of_type<RoundReady>(coordinator.receive(4, hello(1, 3), due + 12s)).size() == 3);
    CHECK_FALSE(coordinator.next_deadline());
}

TEST_CASE("a long list of missing nodes is cut, with the rest counted") {
    Coordinator coordinator = make(1000);
    coordinator.receive(1, hello(0, 1000), kStart);
    auto waiting = of_type<Waiting>(coordinator.tick(kStart + 5s));
    REQUIRE(waiting.size() == 1);
    CHECK(waiting[0].missing.size() == kMaxMissingListed);
    CHECK_THAT(to_text(waiting[0]), Catch::EndsWith("node 64 and 935 more"));
}

TEST_CASE("the join timeout ends the job with the same facts") {
    Coordinator coordinator = make(2, 5s);
    coordinator.receive(1, hello(0, 2), kStart);
    auto refused = of_type<Refused>(coordinator.tick(kStart + 5s));
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].exit_code == kExitUnavailable);
    CHECK_THAT(refused[0].reason, Catch::Contains("joined 1/2, missing node 1 after 5 s"));
    CHECK_THAT(refused[0].reason, Catch::Contains("join_timeout"));
    CHECK_FALSE(coordinator.empty());
    coordinator.closed(1, kStart + 5s);
    CHECK(coordinator.empty());
    auto late = of_type<Refused>(coordinator.receive(2, hello(1, 2), kStart + 6s));
    REQUIRE(late.size() == 1);
    CHECK(late[0].exit_code == kExitUnavailable);
}

TEST_CASE("the job succeeds when every node has, and the host leaves last") {
    Coordinator coordinator = make(2);
    join_all(coordinator, {1, 1});
    CHECK(coordinator.receive(1, WorkersSucceeded{0}, kStart).empty());
    auto finish = of_type<Finish>(coordinator.receive(2, WorkersSucceeded{0}, kStart));
    REQUIRE(finish.size() == 2);
    CHECK(finish[0] == Finish{0, false, {}});
    coordinator.receive(1, Goodbye{}, kStart);
    CHECK_FALSE(coordinator.empty());
    coordinator.closed(2, kStart);
    CHECK(coordinator.empty());
}

TEST_CASE("the first failure received is the story, whatever comes later") {
    Coordinator coordinator = make(3);
    join_all(coordinator, {2, 2, 2});
    auto stops = of_type<Stop>(coordinator.receive(2, failed_with(7, 3), kStart));
    REQUIRE(stops.size() == 3);
    for (const Stop& stop : stops) {
        CHECK(stop.cause.rank == 3);
        CHECK(stop.cause.exit_code == 7);
        CHECK(stop.cause.node_rank == 1);
        CHECK(stop.cause.host == "gpu1");
    }
    CHECK(coordinator.receive(1, failed_with(9, 0), kStart).empty());
    CHECK(coordinator.receive(3, AgentSignalled{0, 15}, kStart).empty());
    CHECK(coordinator.receive(1, WorkersGone{0, false}, kStart).empty());
    CHECK(coordinator.receive(2, WorkersGone{0, false}, kStart).empty());
    auto finish = of_type<Finish>(coordinator.receive(3, WorkersGone{0, true}, kStart));
    REQUIRE(finish.size() == 3);
    CHECK(finish[0].exit_code == 7);
    CHECK(finish[0].cause.rank == 3);
}

TEST_CASE("a node that vanishes is the first failure, named; one that had finished is not") {
    Coordinator coordinator = make(3);
    join_all(coordinator, {1, 1, 1});
    coordinator.receive(1, WorkersSucceeded{0}, kStart);
    CHECK(coordinator.closed(1, kStart).empty());
    auto stops = of_type<Stop>(coordinator.closed(2, kStart));
    REQUIRE(stops.size() == 1);
    CHECK(stops[0].cause.kind == Failure::Kind::node_lost);
    CHECK(stops[0].cause.node_rank == 1);
    CHECK_THAT(stops[0].cause.message, Catch::Contains("pid 101"));
    auto finish = of_type<Finish>(coordinator.receive(3, WorkersGone{0, false}, kStart));
    REQUIRE(finish.size() == 1);
    CHECK(finish[0].exit_code == kExitUnavailable);
}

TEST_CASE("after a signal the exit code says whether all workers ended in order") {
    for (bool in_order : {true, false}) {
        Coordinator coordinator = make(2);
        join_all(coordinator, {1, 1});
        auto stops = of_type<Stop>(coordinator.receive(1, AgentSignalled{0, 15}, kStart));
        REQUIRE(stops.size() == 2);
        CHECK(stops[0].cause.kind == Failure::Kind::signalled);
        CHECK(stops[0].cause.signal == 15);
        coordinator.receive(1, WorkersGone{0, true}, kStart);
        auto finish = of_type<Finish>(coordinator.receive(2, WorkersGone{0, in_order}, kStart));
        REQUIRE(finish.size() == 2);
        CHECK(finish[0].exit_code == (in_order ? kExitPreempted : kExitSignalBase + 15));
    }
}

TEST_CASE("messages that make no sense do no harm") {
    Coordinator coordinator = make(2);
    CHECK(of_type<Refused>(coordinator.receive(5, WorkersSucceeded{0}, kStart)).size() == 1);
    coordinator.receive(1, hello(0, 2), kStart);
    CHECK(of_type<Refused>(coordinator.receive(1, hello(1, 2), kStart)).size() == 1);
    CHECK(coordinator.receive(1, WorkersSucceeded{0}, kStart).empty());
    CHECK(coordinator.receive(1, failed_with(1, 0), kStart).empty());
    CHECK(coordinator.receive(1, Finish{}, kStart).empty());
    CHECK(coordinator.closed(99, kStart).empty());
}

namespace {

// A job on a network that delays, reorders between agents, and cuts connections. Each step one random thing
// happens.
struct Simulation {
    explicit Simulation(unsigned seed) : random(seed) {
        nnodes = pick(1, 40);
        coordinator.emplace(make(nnodes));
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
                    CHECK_FALSE(agent.round);
                    agent.round = *ready;
                }
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
            return deliver(coordinator->receive(agent.connection, WorkersGone{0, pick(0, 1) == 0}, now));
        }
        if (agent.said_gone || agent.succeeded || agent.stop) return;
        const int what = pick(0, 199);
        if (what == 0) {
            agent.dead = true;
            note_first(Failure::Kind::node_lost, index);
            deliver(coordinator->closed(agent.connection, now));
        } else if (what == 1) {
            note_first(Failure::Kind::worker_failed, index);
            deliver(coordinator->receive(agent.connection, failed_with(3, agent.round->base_rank), now));
        } else if (what == 2) {
            note_first(Failure::Kind::signalled, index);
            deliver(coordinator->receive(agent.connection, AgentSignalled{0, 15}, now));
        } else if (what < 60) {
            agent.succeeded = true;
            deliver(coordinator->receive(agent.connection, WorkersSucceeded{0}, now));
        }
    }

    void note_first(Failure::Kind kind, int node) {
        if (!first) first = std::pair(kind, node);
    }

    bool over() const {
        return std::all_of(agents.begin(), agents.end(), [](const Agent& agent) { return agent.dead; });
    }

    std::mt19937 random;
    int nnodes = 0;
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
        messages +=
            coordinator.receive(static_cast<std::uint64_t>(rank) + 1, WorkersGone{0, true}, kStart).size();
    }
    CHECK(messages == 2 * kNodes);
}

}  // namespace ddprun
