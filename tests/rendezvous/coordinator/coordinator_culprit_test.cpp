// Who was first, where that is known only later.
#include "rendezvous/coordinator/coordinator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

WorkerDying dying(int rank, std::uint64_t life = 0, bool itself = true) { return {0, rank, life, itself}; }

WorkersGone gone_with(int rank, int exit_code) {
    WorkersGone message = gone(0, false);
    message.failure = failed_with(exit_code, rank).failure;
    return message;
}

}  // namespace

TEST_CASE("a death is told to the other agents that have workers left, and is no failure") {
    Coordinator coordinator = make(3);
    join_all(coordinator, {2, 2, 2});
    coordinator.receive(3, WorkersSucceeded{0}, kStart);
    const auto out = coordinator.receive(2, dying(3, 77), kStart);
    REQUIRE(out.size() == 1);
    CHECK(out[0].to == 1);
    CHECK(std::get<PeerDying>(out[0].message) == PeerDying{0, 77});

    CHECK(coordinator.receive(2, dying(2, 0), kStart).empty());  // nobody knows it
    CHECK(coordinator.receive(2, WorkerDying{1, 3, 78, true}, kStart).empty());
    coordinator.receive(1, WorkersSucceeded{0}, kStart);
    const auto finish = of_type<Finish>(coordinator.receive(2, WorkersSucceeded{0}, kStart));
    REQUIRE(finish.size() == 3);
    CHECK_FALSE(finish[0].cause);
}

TEST_CASE("deaths after the first failure are not told") {
    Coordinator coordinator = make(2);
    join_all(coordinator, {2, 2});
    CHECK(of_type<Stop>(coordinator.receive(1, failed_with(1, 0), kStart)).size() == 2);
    CHECK(coordinator.receive(2, dying(2, 5), kStart).empty());
}

TEST_CASE("who was seen to end first is the first failure, if its end is one") {
    // Ranks 0 and 1 are on node 0, 2 and 3 on node 1. Rank 1 fails first, with code 3.
    struct Case {
        std::vector<WorkerDying> seen;
        std::vector<std::pair<int, int>> ends;  // what node 0 and node 1 found out: rank and exit code, or -1
        int rank, exit_code;
    };
    const std::vector<Case> cases = {
        {{}, {{1, 3}, {2, 137}}, 1, 3},
        {{dying(2)}, {{1, 3}, {2, 137}}, 2, 137},
        {{dying(2)}, {{1, 3}, {-1, 0}}, 1, 3},             // it ended with 0
        {{dying(2, 9, false)}, {{1, 3}, {2, 137}}, 1, 3},  // only a process of it ended
        {{dying(2, 9, false), dying(2)}, {{1, 3}, {2, 137}}, 2, 137},
        {{dying(0)}, {{0, 137}, {-1, 0}}, 0, 137},  // on the node that failed
        {{dying(1), dying(2)}, {{1, 3}, {2, 137}}, 1, 3},
        {{dying(2), dying(1)}, {{1, 3}, {2, 137}}, 2, 137},
        {{dying(3), dying(0), dying(2)}, {{0, 5}, {2, 137}}, 0, 5},  // rank 3 ended with 0
        {{dying(0), dying(3)}, {{0, 5}, {3, 137}}, 0, 5},
        {{dying(3), dying(0)}, {{0, 5}, {3, 137}}, 3, 137},
    };
    for (const Case& one : cases) {
        for (const bool reversed : {false, true}) {
            Coordinator coordinator = make(2);
            join_all(coordinator, {2, 2});
            for (const WorkerDying& death : one.seen)
                coordinator.receive(death.rank < 2 ? 1 : 2, death, kStart);
            const auto stops = of_type<Stop>(coordinator.receive(1, failed_with(3, 1), kStart));
            REQUIRE(stops.size() == 2);
            Coordinator::Outbox last;
            for (int node : {0, 1}) {
                if (reversed) node = 1 - node;
                const auto [rank, code] = one.ends.at(static_cast<std::size_t>(node));
                last = coordinator.receive(static_cast<std::uint64_t>(node) + 1,
                                           rank < 0 ? gone(0, true) : gone_with(rank, code), kStart);
            }
            const auto finish = of_type<Finish>(last);
            REQUIRE(finish.size() == 2);
            CHECK(finish[0].cause.value().rank == one.rank);
            CHECK(finish[0].cause.value().exit_code == one.exit_code);
            CHECK(finish[0].exit_code == one.exit_code);
            CHECK(finish[0].cause.value().host == (one.rank < 2 ? "gpu0" : "gpu1"));
        }
    }
}

TEST_CASE("who was being killed when another node's worker failed by an exit code was before it") {
    for (const bool killed : {true, false}) {
        for (const bool seen : {true, false}) {
            Coordinator coordinator = make(2);
            join_all(coordinator, {2, 2});
            coordinator.receive(1, failed_with(3, 0), kStart);
            if (seen) CHECK(coordinator.receive(2, dying(2, 7), kStart).empty());
            WorkersGone other = gone_with(2, 137);
            other.failure->signal = killed ? 9 : 0;
            coordinator.receive(2, other, kStart);
            const auto finish = of_type<Finish>(coordinator.receive(1, gone_with(0, 3), kStart));
            REQUIRE(finish.size() == 2);
            const bool first = killed && seen;
            CHECK(finish[0].cause.value().rank == (first ? 2 : 0));
            CHECK(finish[1].exit_code == (first ? 137 : 3));
        }
    }
}

TEST_CASE("two nodes tell of a failure at once: the signal was before the exit code") {
    Coordinator coordinator = make(2);
    join_all(coordinator, {1, 1});
    coordinator.receive(1, failed_with(3, 0), kStart);
    coordinator.receive(2, failed_with(137, 1), kStart);
    coordinator.receive(1, gone_with(0, 3), kStart);
    WorkersGone killed = gone_with(1, 137);
    killed.failure->signal = 9;
    const auto finish = of_type<Finish>(coordinator.receive(2, killed, kStart));
    REQUIRE(finish.size() == 2);
    CHECK(finish[0].cause.value().rank == 1);
}

TEST_CASE("what a node says of itself at last counts more than what it told at once") {
    Coordinator coordinator = make(1);
    join_all(coordinator, {3});
    coordinator.receive(1, failed_with(3, 0), kStart);
    const auto finish = of_type<Finish>(coordinator.receive(1, gone_with(2, 137), kStart));
    REQUIRE(finish.size() == 1);
    CHECK(finish[0].cause.value().rank == 2);
}

TEST_CASE("the last words of who failed name the culprit on another node") {
    Coordinator coordinator = make_restarting(2, {.max_restarts = 1, .backoff_max = 0s, .min_uptime = 0ms});
    join_all(coordinator, {2, 2});
    const std::string words = "barrier() as call 3: after 5 s (operation_timeout) rank 3 does not answer";
    for (int round = 0; round < 2; ++round) {
        WorkerFailed told = failed_with(1, 0);
        told.round = round;
        coordinator.receive(1, told, kStart);
        RankEnd end{.rank = 3, .local_rank = 1, .pid = 4711, .exit_code = 143, .signal = 15};
        end.manner = RankEnd::Manner::stopped;
        coordinator.receive(2, RankEnds{round, {end}}, kStart);
        WorkersGone witness = gone_with(0, 1);
        witness.round = round;
        witness.failure->last_lines = {words};
        coordinator.receive(1, witness, kStart);
        const auto last = coordinator.receive(2, gone(round, false), kStart);
        if (round == 0) {
            const auto restarting = of_type<Restarting>(last);
            REQUIRE(restarting.size() == 2);
            CHECK(restarting[0].cause.rank == 3);
            continue;
        }
        const auto finish = of_type<Finish>(last);
        REQUIRE(finish.size() == 2);
        const Failure& cause = finish[0].cause.value();
        CHECK(cause.rank == 3);
        CHECK(cause.node_rank == 1);
        CHECK(cause.host == "gpu1");
        CHECK(cause.pid == 4711);
        CHECK(cause.witness == 0);
        CHECK(cause.testimony == words);
        CHECK(finish[0].exit_code == 1);
        CHECK(finish[0].restarts.at(0).reason ==
              "rank 3 on node 1 (gpu1): does not answer, says rank 0 (exit code 1)");
    }
}

TEST_CASE("what a user or a lost node has begun is not laid on a worker") {
    Coordinator coordinator = make(2);
    join_all(coordinator, {1, 1});
    coordinator.receive(2, dying(1), kStart);
    coordinator.receive(1, AgentSignalled{0, 15}, kStart);
    coordinator.receive(1, gone(0, true), kStart);
    const auto finish = of_type<Finish>(coordinator.receive(2, gone_with(1, 137), kStart));
    REQUIRE(finish.size() == 2);
    CHECK(finish[0].cause.value().kind == Failure::Kind::signalled);
}

TEST_CASE("the others are counted as what they are, and a restart names the one that was first") {
    Coordinator coordinator = make_restarting(2, {.max_restarts = 1, .backoff_max = 0s, .min_uptime = 0ms});
    join_all(coordinator, {2, 1});
    coordinator.receive(2, dying(2), kStart);
    coordinator.receive(1, failed_with(3, 0), kStart);
    coordinator.receive(1, gone_with(0, 3), kStart);
    const auto restarting = of_type<Restarting>(coordinator.receive(2, gone_with(2, 137), kStart));
    REQUIRE(restarting.size() == 2);
    CHECK(restarting[0].cause.rank == 2);

    // A new round has new suspects.
    auto in_round = [](auto message) {
        message.round = 1;
        return message;
    };
    coordinator.receive(1, in_round(failed_with(3, 0)), kStart);
    auto end = [](int rank, RankEnd::Manner manner) {
        RankEnd rank_end;
        rank_end.rank = rank;
        rank_end.manner = manner;
        return rank_end;
    };
    coordinator.receive(1, RankEnds{1, {end(0, RankEnd::Manner::failed), end(1, RankEnd::Manner::stopped)}},
                        kStart);
    coordinator.receive(1, in_round(gone_with(0, 3)), kStart);
    coordinator.receive(2, RankEnds{1, {end(2, RankEnd::Manner::failed)}}, kStart);
    const auto finish = of_type<Finish>(coordinator.receive(2, in_round(gone_with(2, 137)), kStart));
    REQUIRE(finish.size() == 2);
    CHECK(finish[0].cause.value().rank == 0);
    CHECK(finish[0].failed_too == 1);
    CHECK(finish[0].stopped == 1);
    CHECK_THAT(finish[0].restarts.at(0).reason, Catch::Contains("rank 2"));
}

TEST_CASE("deaths cost no more messages in a round than there is room for") {
    constexpr int kNodes = 1000;
    Coordinator coordinator = make(kNodes);
    join_all(coordinator, std::vector<int>(kNodes, 4));
    std::size_t messages = 0;
    for (int death = 0; death < 4 * kNodes; ++death) {
        const auto life = static_cast<std::uint64_t>(death) + 1;
        const int node = static_cast<int>(life % kNodes);
        messages +=
            coordinator.receive(1 + life % kNodes, dying(4 * node + death / kNodes, life), kStart).size();
    }
    CHECK(messages <= Round::kMaxDeathsTold);
    CHECK(messages > Round::kMaxDeathsTold - kNodes);
}

}  // namespace ddprun
