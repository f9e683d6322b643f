#include "rendezvous/coordinator/aftermath.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

CoordinatorOptions elastic(int least, int most) {
    CoordinatorOptions options{.version = "1", .nnodes = most, .restarts = {.max_restarts = 3}};
    options.elasticity.min_nodes = least;
    options.elasticity.exclude_after = 1;
    return options;
}

// Nodes of one worker each, in round 0; connections are the ranks and one.
struct After {
    After(CoordinatorOptions said, int come)
        : options(std::make_shared<const CoordinatorOptions>(std::move(said))),
          roster(options, kStart),
          round(*options),
          aftermath(options) {
        for (int rank = 0; rank < come; ++rank)
            roster.admit(static_cast<std::uint64_t>(rank) + 1, hello(rank, options->nnodes));
        roster.end_gathering();
        roster.seat({});
        round.begin(roster, kStart);
    }
    const JobNodes& nodes() const { return roster.nodes(); }
    // A worker of this node fails, and the round ends.
    Aftermath::Verdict fail(int rank, const std::optional<Judgement>& judgement = {}) {
        Failure failure = failed_with(7, rank).failure;
        failure.node_rank = rank;
        failure.host = "gpu" + std::to_string(rank);
        round.stop(round.tell(nodes().at(rank), failure), roster, kStart + 60s);
        aftermath.classify(failure, nodes());
        return aftermath.settle(judgement, roster, round);
    }

    SharedOptions options;
    Roster roster;
    Round round;
    Aftermath aftermath;
};

}  // namespace

TEST_CASE("the queue is taken from in the order of arrival, and an agent is found in it by its name") {
    After after(elastic(1, 3), 1);
    after.aftermath.enqueue(8, hello(1, 3));
    after.aftermath.enqueue(9, hello(kUnnumbered, 3));
    REQUIRE(after.aftermath.queued(hello(1, 3)) != nullptr);
    CHECK(after.aftermath.queued(hello(1, 3))->claim == 1);
    CHECK(after.aftermath.present(after.nodes()) == 3);
    const auto taken = after.aftermath.take_from_queue(1);
    REQUIRE(taken.size() == 1);
    CHECK(taken[0].connection == 8);
    CHECK(after.aftermath.take_from_queue(5).size() == 1);
    CHECK_FALSE(after.aftermath.leave_queue(9));
}

TEST_CASE("a job has enough nodes with the least that stay or wait") {
    After after(elastic(2, 3), 3);
    CHECK(after.aftermath.has_enough(after.nodes()));
    after.roster.note_leaving(after.nodes().at(2), 15);
    CHECK(somebody_leaves(after.nodes()));
    CHECK(after.aftermath.has_enough(after.nodes()));
    after.roster.lose(after.nodes().at(1), Roster::Loss::closed, true);
    CHECK_FALSE(after.aftermath.has_enough(after.nodes()));
    after.aftermath.enqueue(9, hello(kUnnumbered, 3));
    CHECK(after.aftermath.has_enough(after.nodes()));
}

TEST_CASE("the round ends for a node that comes while a seat is free and nobody is done") {
    After after(elastic(1, 3), 2);
    CHECK(after.aftermath.can_grow(after.nodes()));
    after.roster.run_of(after.nodes().at(1)).ended = true;
    CHECK_FALSE(after.aftermath.can_grow(after.nodes()));
    CHECK_FALSE(After(elastic(1, 2), 2).aftermath.can_grow(after.nodes()));
}

TEST_CASE("a round that ended because of its nodes is a resize, and no restart is counted") {
    struct Case {
        Failure::Kind kind;
        bool elastic_job, cancelled, is_resize;
    };
    using Kind = Failure::Kind;
    for (const Case& one : std::vector<Case>{{Kind::node_lost, true, false, true},
                                             {Kind::resized, true, false, true},
                                             {Kind::node_lost, false, false, false},
                                             {Kind::node_lost, true, true, false},
                                             {Kind::worker_failed, true, false, false}}) {
        CoordinatorOptions options = elastic(1, 2);
        if (!one.elastic_job) options.elasticity.min_nodes.reset();
        After after(options, 2);
        if (one.cancelled) after.aftermath.cancel();
        const Failure cause{.kind = one.kind, .exit_code = 7};
        after.round.stop(cause, after.roster, kStart);
        after.aftermath.classify(cause, after.nodes());
        CHECK(after.aftermath.settle({}, after.roster, after.round).goes_on == !one.cancelled);
        if (one.cancelled) continue;
        const Restarting told = after.aftermath.pause(cause, 0, after.nodes(), kStart);
        CHECK(told.resize == (one.is_resize ? 1 : 0));
        CHECK(told.restart == (one.is_resize ? 0 : 1));
        CHECK(after.aftermath.history().resizes == (one.is_resize ? 1 : 0));
        const RoundHistory history = after.aftermath.history();
        const auto& list = one.is_resize ? history.resize_list : history.restart_list;
        CHECK(after.aftermath.reason_of_round() == list.back().reason);
    }
}

TEST_CASE("a node that failed often enough is left out, but not the host, nor one that the job needs") {
    struct Case {
        int least, rank;
        bool is_left_out;
    };
    for (const Case& one : std::vector<Case>{{1, 1, true}, {1, 0, false}, {3, 1, false}}) {
        After after(elastic(one.least, 3), 3);
        CHECK(after.fail(one.rank).goes_on);
        CHECK(after.nodes().at(one.rank).left_out.empty() != one.is_left_out);
        Hello again = hello(one.rank, 3);
        CHECK((after.aftermath.why_left_out(again, after.nodes()) != nullptr) == one.is_left_out);
        CHECK(after.aftermath.take_back_left_out(after.roster).size() == (one.is_left_out ? 1 : 0));
        CHECK(after.aftermath.why_left_out(again, after.nodes()) == nullptr);
    }
}

TEST_CASE("what the judge says goes before the policy, unless it cannot be") {
    struct Case {
        Judgement judgement;
        bool goes_on;
        std::size_t remarks;
    };
    using Answer = Judgement::Answer;
    CoordinatorOptions options = elastic(1, 3);
    options.elasticity.exclude_after = 0;
    for (const Case& one : std::vector<Case>{{{.answer = Answer::stop}, false, 0},
                                             {{.answer = Answer::restart}, true, 0},
                                             {{.answer = Answer::exclude, .node = 2}, true, 1},
                                             {{.answer = Answer::exclude, .node = 0}, true, 1},
                                             {{.answer = Answer::exclude, .node = 7}, true, 1}}) {
        After after(options, 3);
        const Aftermath::Verdict verdict = after.fail(1, one.judgement);
        CHECK(verdict.goes_on == one.goes_on);
        CHECK(verdict.remarks.size() == one.remarks);
        CHECK(after.nodes().at(2).stays() == (one.judgement.node != 2));
    }
}

TEST_CASE("no round begins before the workers of lost nodes had their time, nor before the clock let them") {
    After after(elastic(1, 3), 3);
    after.aftermath.await_workers(kStart + 70s);
    after.aftermath.await_workers(kStart + 65s);
    after.fail(1);
    after.aftermath.pause(*after.round.cause(), 0, after.nodes(), kStart + 61s);
    CHECK(after.aftermath.pause_end() == kStart + 70s);
    CHECK(after.aftermath.may_have_workers(kStart + 69s));
    after.aftermath.postpone(100s);
    CHECK(after.aftermath.may_have_workers(kStart + 169s));
    after.aftermath.round_begins();
    CHECK_FALSE(after.aftermath.may_have_workers(kStart));
}

TEST_CASE("who leaves is told how, and the history goes to whoever takes the job over") {
    After after(elastic(1, 3), 3);
    after.aftermath.take_over(
        {.restarts = 2, .resizes = 1, .restart_list = {{0, "why", 0}}, .resize_list = {}});
    after.roster.note_leaving(after.nodes().at(1), 15);
    after.roster.leave_out(after.nodes().at(2), "it fails");
    const Messages out = after.aftermath.farewells(after.nodes(), Failure{.exit_code = 7});
    REQUIRE(out.size() == 2);
    const auto finish = of_type<Finish>(out);
    CHECK(finish[0].cause.value().signal == 15);
    CHECK(finish[1].exit_code == 7);
    CHECK(finish[1].message == "the job goes on without this node: it fails");
    CHECK(finish[1].restarts.size() == 1);
    CHECK(after.aftermath.history().restarts == 2);
    after.aftermath.go_on(true, kStart);
    CHECK(after.aftermath.pause_end() == kStart);
}

}  // namespace ddprun
