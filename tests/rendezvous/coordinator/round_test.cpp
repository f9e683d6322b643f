#include "rendezvous/coordinator/round.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

// Nodes of two workers each, in round 0; connections are the ranks and one.
struct Game {
    explicit Game(int nnodes, std::optional<ExitWaitOptions> exit_wait = {})
        : options(std::make_shared<const CoordinatorOptions>(
              CoordinatorOptions{.version = "1", .nnodes = nnodes, .exit_wait = std::move(exit_wait)})),
          roster(options, kStart),
          round(*options) {
        for (int rank = 0; rank < nnodes; ++rank)
            roster.admit(static_cast<std::uint64_t>(rank) + 1, hello(rank, nnodes, 2));
        roster.end_gathering();
        roster.seat({});
        ranks = round.begin(roster, kStart);
    }
    const JobNode& node(int rank) const { return roster.nodes().at(rank); }
    NodeRun& run(int rank) { return roster.run_of(node(rank)); }

    SharedOptions options;
    Roster roster;
    Round round;
    std::vector<NodeRanks> ranks;
};

Failure failure_with(int exit_code, int rank) { return failed_with(exit_code, rank).failure; }

}  // namespace

TEST_CASE("a round numbers the workers of its nodes, and the next one is another number") {
    Game game(3);
    CHECK(game.round.number() == 0);
    CHECK(game.round.has_run());
    for (int rank = 0; rank < 3; ++rank) CHECK(game.node(rank).run.base_rank == 2 * rank);
    CHECK(game.ranks.at(2).world_size == 6);
    game.round.begin(game.roster, kStart);
    CHECK(game.round.number() == 1);
}

TEST_CASE("a round has ended when the last node has, each counted once") {
    Game game(2);
    CHECK_FALSE(game.round.node_succeeded(game.run(0)));
    CHECK_FALSE(game.round.node_succeeded(game.run(0)));
    CHECK(game.round.node_succeeded(game.run(1)));
    CHECK(game.round.has_ended());
}

TEST_CASE("a round that stops awaits the nodes that are connected, also those that had succeeded") {
    Game game(3);
    game.round.node_succeeded(game.run(0));
    game.roster.lose(game.node(1), Roster::Loss::closed, true);
    const Failure cause = game.round.tell(game.node(1), {.kind = Failure::Kind::node_lost, .node_rank = 1});
    const Messages out = game.round.stop(cause, game.roster, kStart + 7s);
    CHECK(of_type<Stop>(out).size() == 2);
    CHECK(game.round.uptime() == 7s);
    CHECK_FALSE(game.round.has_ended());
    const WorkersGone left = gone(0, false);
    CHECK_FALSE(game.round.node_gone(game.node(1), game.run(1), nullptr));
    CHECK_FALSE(game.round.node_gone(game.node(0), game.run(0), &left));
    CHECK(game.round.node_gone(game.node(2), game.run(2), &left));
    game.round.find_cause(game.roster.nodes());
    CHECK(game.round.cause().value().kind == Failure::Kind::node_lost);
}

TEST_CASE("who was seen to end before the failure was told is its cause") {
    for (const bool seen : {false, true}) {
        Game game(2);
        if (seen) {
            const Messages told =
                game.round.suspect(game.node(1), WorkerDying{0, 2, 77, true}, game.roster.nodes());
            REQUIRE(told.size() == 1);
            CHECK(told[0].to == 1);
        }
        game.round.stop(game.round.tell(game.node(0), failure_with(3, 0)), game.roster, kStart);
        WorkersGone other = gone(0, false);
        other.failure = failure_with(137, 2);
        game.round.node_gone(game.node(1), game.run(1), &other);
        game.round.find_cause(game.roster.nodes());
        CHECK(game.round.cause().value().rank == (seen ? 2 : 0));
        CHECK(game.round.cause().value().node_rank == (seen ? 1 : 0));
    }
}

TEST_CASE("what the ranks of all nodes did becomes the cause's, where it tells something") {
    using Manner = RanksDoing::Manner;
    for (const bool waits : {false, true}) {
        Game game(2);
        game.round.stop(game.round.tell(game.node(0), failure_with(3, 0)), game.roster, kStart);
        WorkersGone first = gone(0, false), second = gone(0, false);
        first.others = {{{{1, 1}}, waits ? Manner::waited : Manner::other, "waited in all_reduce (a.py:3)"}};
        second.others = {{{{2, 2}}, Manner::other, "ran"}, {{{3, 3}}, Manner::other, "was stopped"}};
        second.left = first.others;
        second.left[0].ranks = {{3, 3}};
        game.round.node_gone(game.node(0), game.run(0), &first);
        game.round.node_gone(game.node(1), game.run(1), &second);
        game.round.find_cause(game.roster.nodes());
        CHECK(doings_text(game.round.cause()->others) ==
              (waits ? "rank 2 ran; rank 3 was stopped; rank 1 waited in all_reduce (a.py:3)" : ""));
        CHECK(doings_text(game.round.cause()->left) == (waits ? "rank 3 waited in all_reduce (a.py:3)" : ""));
        game.round.begin(game.roster, kStart);
        game.round.stop(game.round.tell(game.node(0), failure_with(3, 0)), game.roster, kStart);
        game.round.find_cause(game.roster.nodes());
        CHECK(game.round.cause()->others.empty());
    }
}

TEST_CASE("only a resize is replaced as what ends the round") {
    for (const auto kind : {Failure::Kind::resized, Failure::Kind::worker_failed}) {
        Game game(1);
        game.round.replace_resize({.kind = Failure::Kind::node_lost});
        CHECK_FALSE(game.round.cause());
        game.round.set_cause({.kind = kind});
        game.round.replace_resize({.kind = Failure::Kind::node_lost});
        CHECK((game.round.cause()->kind == Failure::Kind::node_lost) == (kind == Failure::Kind::resized));
    }
}

TEST_CASE("a node keeps as many ends as it has workers, at its own place") {
    Game game(2);
    RankEnds ends{0, {}};
    for (int rank = 2; rank < 6; ++rank) ends.ends.push_back({.rank = rank, .node_rank = 9, .host = "liar"});
    game.round.keep_ends(game.node(1), game.run(1), ends);
    REQUIRE(game.node(1).run.ends.size() == 2);
    CHECK(game.node(1).run.ends[1].node_rank == 1);
    CHECK(game.node(1).run.ends[1].host == "gpu1");
}

TEST_CASE("a round asks who runs when the others have had their time, and names the first that is overdue") {
    Game game(2, ExitWaitOptions{.wait = 30s, .kill = true, .text = "30s:kill"});
    game.round.rank_succeeded(0, kStart);
    CHECK(game.round.exit_wait_deadline() == kStart + 30s);
    CHECK_FALSE(game.round.is_exit_wait_due(kStart + 29s));
    game.round.node_succeeded(game.run(0));
    CHECK(of_type<WhoRuns>(game.round.ask_who_runs(game.roster.nodes(), kStart + 30s)).size() == 1);
    CHECK(game.round.asks_who_runs());
    CHECK(game.round.note_running(game.node(1), {.round = 0, .count = 1, .ranks = {{3, 3}}, .pid = 5}));
    CHECK(game.round.end_exit_wait(game.roster.nodes()));
    CHECK(game.round.overdue_node() == 1);
    const Failure overdue = game.round.overdue_failure(game.node(1));
    CHECK(overdue.rank == 3);
    CHECK(overdue.local_rank == 1);
    CHECK(overdue.host == "gpu1");
}

TEST_CASE("a round that was taken over awaits those whose workers are not known to be gone") {
    Game game(3);
    game.run(0).ended = true;
    game.round.take_over({.kind = Failure::Kind::node_lost, .node_rank = 0}, game.roster.nodes());
    CHECK_FALSE(game.round.node_gone(game.node(1), game.run(1), nullptr));
    CHECK(game.round.node_gone(game.node(2), game.run(2), nullptr));
    CHECK(game.round.cause().value().kind == Failure::Kind::node_lost);
}

TEST_CASE("a failure is placed on the node that has its rank, whichever node tells of it") {
    const Game game(2);
    Failure failure{.kind = Failure::Kind::hang, .node_rank = 0, .host = "gpu0"};
    failure.rank = 3;
    const Failure placed = placed_by_rank(failure, game.roster.nodes());
    CHECK((placed.node_rank == 1 && placed.host == "gpu1" && placed.local_rank == 1 && placed.rank == 3));
    failure.rank = -1;
    CHECK(placed_by_rank(failure, game.roster.nodes()) == failure);
    failure.rank = 4;
    CHECK(placed_by_rank(failure, game.roster.nodes()) == failure);
}

}  // namespace ddprun
