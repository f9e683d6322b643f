#include "rendezvous/coordinator/job_summary.hpp"

#include <csignal>
#include <limits>

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {
namespace {

// Three nodes of two workers; those of node 2 have not said how they ended.
JobNodes three_nodes() {
    using enum RankEnd::Manner;
    const RankEnd::Manner manners[] = {succeeded, stopped, failed, stopped};
    JobNodes nodes;
    for (int rank = 0; rank < 3; ++rank) {
        nodes[rank] = {.hello = hello(rank, 3, 2),
                       .run = {.base_rank = 2 * rank, .ended = true, .is_gone = true, .ends = {}}};
        for (int worker = 2 * rank; rank < 2 && worker < 2 * rank + 2; ++worker)
            nodes[rank].run.ends.push_back({.rank = worker, .node_rank = rank, .manner = manners[worker]});
    }
    return nodes;
}

Failure cause_of(Failure::Kind kind, int exit_code, int signal = 0) {
    Failure failure{.kind = kind};
    failure.rank = 2;
    failure.exit_code = exit_code;
    failure.signal = signal;
    return failure;
}

}  // namespace

TEST_CASE("the exit code of a job") {
    using Kind = Failure::Kind;
    struct Case {
        std::optional<Failure> cause;
        bool all_zero, requeue;
        int exit_code;
    };
    const std::vector<Case> cases = {
        {{}, true, false, 0},
        {{}, true, true, kExitPreempted},
        {cause_of(Kind::worker_failed, 7), false, false, 7},
        {cause_of(Kind::worker_failed, 7), false, true, 7},
        {cause_of(Kind::node_lost, kExitUnavailable), true, false, kExitUnavailable},
        {cause_of(Kind::signalled, 0, SIGTERM), false, false, 128 + SIGTERM},
        {cause_of(Kind::signalled, 0, SIGTERM), true, false, kExitPreempted},
        // What no agent can say: a parent must not read 0 from it.
        {cause_of(Kind::worker_failed, 0), false, false, kExitInternal},
        {cause_of(Kind::worker_failed, 256), false, false, kExitInternal},
        {cause_of(Kind::worker_failed, -256), false, false, kExitInternal},
        {cause_of(Kind::worker_failed, std::numeric_limits<int>::max()), false, false, kExitInternal},
        {cause_of(Kind::node_lost, 0), false, false, kExitInternal},
        {cause_of(Kind::overdue, 512), false, false, kExitInternal},
        {cause_of(Kind::resized, 0), false, false, kExitInternal},
        {cause_of(Kind::signalled, 0, 128), false, false, kExitInternal},
        {cause_of(Kind::signalled, 0, -128), false, false, kExitInternal},
        {cause_of(Kind::signalled, 0, 0), false, false, kExitInternal},
        {cause_of(Kind::signalled, 0, std::numeric_limits<int>::max()), false, false, kExitInternal},
    };
    for (const Case& one : cases) {
        JobNodes nodes = three_nodes();
        for (auto& [rank, node] : nodes) node.run.all_zero = one.all_zero;
        const Finish finish = summary_of(nodes, one.cause, one.requeue);
        CHECK(finish.exit_code == one.exit_code);
        CHECK(finish.cause == one.cause);
    }
}

TEST_CASE("the workers besides the first failure are counted, and the failed ones listed first") {
    const Finish finish = summary_of(three_nodes(), cause_of(Failure::Kind::node_lost, 69), false);
    CHECK(finish.succeeded == 1);
    CHECK(finish.failed_too == 1);
    CHECK(finish.stopped == 2);
    REQUIRE(finish.others.size() == 3);
    CHECK(finish.others[0].rank == 2);
    CHECK(finish.others[1].rank == 1);
    const Finish by_worker = summary_of(three_nodes(), cause_of(Failure::Kind::worker_failed, 7), false);
    CHECK(by_worker.failed_too == 0);
    CHECK(by_worker.others.size() == 2);
}

TEST_CASE("a node that is not there any more has lost its workers unless it told of them") {
    JobNodes nodes = three_nodes();
    nodes.at(2).connected = nodes.at(1).connected = false;
    Finish finish = summary_of(nodes, std::nullopt, false);
    CHECK(finish.lost == 2);
    CHECK(finish.unknown_node_count == 0);
    nodes.at(2).run.is_gone = nodes.at(2).run.ended = false;
    finish = summary_of(nodes, std::nullopt, false);
    CHECK(finish.lost == 2);
    CHECK(finish.unknown_nodes == std::vector<std::string>{"node 2 (gpu2)"});
    CHECK(end_of_rank(nodes, 3)->manner == RankEnd::Manner::stopped);
    CHECK(end_of_rank(nodes, 5)->manner == RankEnd::Manner::lost);
    CHECK(end_of_rank(nodes, 5)->local_rank == 1);
    CHECK_FALSE(end_of_rank(nodes, 6));
}

TEST_CASE("ends are cut into messages that fit") {
    CHECK(as_messages(4, {}).empty());
    const std::vector<RankEnd> ends(kMaxEndsInMessage + 1);
    const auto messages = as_messages(4, ends);
    REQUIRE(messages.size() == 2);
    CHECK(messages[0].ends.size() == kMaxEndsInMessage);
    CHECK(messages[1] == RankEnds{4, {RankEnd{}}});
}

}  // namespace ddprun
