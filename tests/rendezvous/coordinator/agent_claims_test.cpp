// What an agent says of workers that it does not have: nobody believes it any more.
#include "rendezvous/coordinator/agent_claims.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {
namespace {

WorkerFailed failed_on(int rank, int local_rank) {
    WorkerFailed failed = failed_with(7, rank);
    failed.failure.local_rank = local_rank;
    return failed;
}

WorkersGone gone_with(const Failure& failure) {
    WorkersGone gone{.round = 0};
    gone.failure = failure;
    return gone;
}

RankEnds ends_of(int rank, int local_rank) {
    return {0, {{.rank = rank, .local_rank = local_rank, .exit_code = 1, .manner = RankEnd::Manner::failed}}};
}

}  // namespace

TEST_CASE("an agent speaks of its own workers only") {
    // Of three nodes with 2, 3 and 2 workers the second: ranks 2 to 4.
    const JobNode node{.hello = hello(1, 3, 3), .run = {.base_rank = 2, .ends = {}}};
    for (const int rank : {-9, -1, 0, 1, 2, 3, 4, 5, 6, 1'000'000}) {
        INFO("rank " << rank);
        const bool own = rank >= 2 && rank <= 4;
        CHECK(can_be_true(failed_on(rank, -1), node) == own);
        CHECK(can_be_true(gone_with(failed_on(rank, 1).failure), node) == own);
        CHECK(can_be_true(WorkerDying{0, rank, 1, true}, node) == own);
        CHECK(can_be_true(RankSucceeded{0, rank}, node) == own);
        CHECK(can_be_true(ends_of(rank, 0), node) == own);
        const std::vector<RanksDoing> doings = {{{{2, rank}}, RanksDoing::Manner::waited, "waited"}};
        CHECK(can_be_true(WorkersGone{.others = doings}, node) == own);
        CHECK(can_be_true(WorkersGone{.left = doings}, node) == own);
        CHECK(can_be_true(StillRunning{0, 1, {{rank, rank}}, 1}, node) == own);
        CHECK(can_be_true(StillRunning{0, 1, {{2, rank}}, 1}, node) == own);
    }
    for (const int local_rank : {0, 2, 3, 4095}) {
        CHECK(can_be_true(failed_on(3, local_rank), node) == (local_rank < 3));
        CHECK(can_be_true(ends_of(3, local_rank), node) == (local_rank < 3));
    }
    CHECK(can_be_true(StillRunning{0, 3, {}, 1}, node));
    CHECK_FALSE(can_be_true(StillRunning{0, 4, {}, 1}, node));
    Failure loss{.kind = Failure::Kind::node_lost};
    loss.rank = 3;
    CHECK_FALSE(can_be_true(WorkerFailed{0, loss}, node));
    CHECK(can_be_true(WorkersGone{.round = 0}, node));
}

TEST_CASE("of a hang the agent of node 0 speaks for all, and no other") {
    WorkerFailed hang = failed_on(5, -1);
    hang.failure.kind = Failure::Kind::hang;
    CHECK(can_be_true(hang, {.hello = hello(0, 3, 3), .run = {.ends = {}}}));
    CHECK_FALSE(can_be_true(hang, {.hello = hello(1, 3, 3), .run = {.base_rank = 3, .ends = {}}}));
    CHECK_FALSE(can_be_true(gone_with(hang.failure), {.hello = hello(0, 3, 3), .run = {.ends = {}}}));
}

TEST_CASE("who says what cannot be true is lost, and is told one word") {
    for (const ControlMessage& lie : std::vector<ControlMessage>{
             failed_on(0, 0), gone_with(failed_on(0, 0).failure), WorkerDying{0, 0, 1, true},
             RankSucceeded{0, 0}, ends_of(0, 0), StillRunning{0, 1, {{0, 0}}, 1}}) {
        Coordinator coordinator = make(2);
        join_all(coordinator, {1, 1});
        auto out = coordinator.receive(2, lie, kStart);
        REQUIRE_FALSE(out.empty());
        CHECK(out[0].to == 2);
        CHECK(out[0].close_after);
        CHECK(std::get<GivenUp>(out[0].message).reason == "what it said cannot be true");
        const auto stops = of_type<Stop>(out);
        REQUIRE(stops.size() == 1);
        CHECK(stops[0].cause.kind == Failure::Kind::node_lost);
        CHECK(stops[0].cause.node_rank == 1);
        CHECK(stops[0].cause.message == "its agent (pid 101) said what cannot be true");
        // Whatever it says behind that.
        CHECK(of_type<Stop>(coordinator.receive(2, failed_on(1, 0), kStart)).empty());
        coordinator.closed(2, kStart);
        const auto finish = of_type<Finish>(coordinator.receive(1, gone(0, false), kStart));
        REQUIRE(finish.size() == 1);
        CHECK(finish[0].exit_code == kExitUnavailable);
    }
}

TEST_CASE("what an agent says of a round before is no lie") {
    RestartOptions restarts{.max_restarts = 1};
    restarts.min_uptime = std::chrono::milliseconds(0);
    Coordinator coordinator = make_restarting(2, restarts);
    join_all(coordinator, {1, 1});
    coordinator.receive(1, failed_with(7, 0), kStart);
    coordinator.receive(1, gone(0, false), kStart);
    coordinator.receive(2, gone(0, false), kStart);
    REQUIRE(coordinator.round() == 1);
    CHECK(coordinator.receive(2, ends_of(0, 0), kStart).empty());
}

}  // namespace ddprun
