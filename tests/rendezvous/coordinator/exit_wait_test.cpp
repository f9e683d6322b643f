// --exit-wait: what is known of those that still run, and what a whole job makes of it in simulated time.
#include "rendezvous/coordinator/round.hpp"

#include "rendezvous/control/control_wire.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

StillRunning running(const std::vector<int>& ranks, int round = 0) {
    std::vector<WorkerStatus> workers;
    for (const int rank : ranks) workers.push_back({.rank = rank, .pid = 1000 + rank});
    return still_running_of(round, workers);
}

// Of nodes with four ranks each, at the point where they are asked.
ExitWait asking(int nodes) {
    ExitWait wait(ExitWaitOptions{30s, false, "30"});
    wait.ended(0, kStart);
    std::map<int, StillRunning> all;
    for (int node = 0; node < nodes; ++node) all[node] = {0, 4, {{4 * node, 4 * node + 3}}, 0};
    wait.ask(std::move(all), kStart + 30s);
    return wait;
}

Coordinator make_waiting(int nnodes, bool kill, int max_restarts = 0) {
    const RestartOptions restarts{.max_restarts = max_restarts};
    return Coordinator({.version = "1",
                        .run_id = "none",
                        .job_id = "job",
                        .nnodes = nnodes,
                        .restarts = restarts,
                        .exit_wait = ExitWaitOptions{30s, kill, kill ? "30:kill" : "30"}},
                       kStart);
}

std::vector<std::string> remarks(const Coordinator::Outbox& outbox) {
    std::vector<std::string> found;
    for (const Remark& remark : of_type<Remark>(outbox)) found.push_back(remark.text);
    return found;
}

}  // namespace

TEST_CASE("exit wait: a node tells of those of its workers that have not ended") {
    StillRunning told = still_running_of(2, {{.rank = 6, .pid = 60},
                                             {.rank = 4, .pid = 40, .exit_code = 0},
                                             {.rank = 5, .pid = 50},
                                             {.rank = 7, .pid = 70, .exit_code = 3}});
    CHECK(told == StillRunning{2, 2, {{5, 6}}, 50});
    CHECK(still_running_of(0, {}) == StillRunning{});
    std::vector<int> every_second;
    for (int rank = 0; rank < 4096; rank += 2) every_second.push_back(rank);
    told = running(every_second);
    CHECK(told.count == 2048);
    CHECK(told.ranks.size() == kMaxRangesInMessage);
    CHECK(decode_control(encode_control(told).substr(4)).has_value());
}

TEST_CASE("exit wait: the first end counts, in every round anew") {
    ExitWait none(std::nullopt);
    none.ended(0, kStart);
    CHECK_FALSE(none.deadline());
    ExitWait wait(ExitWaitOptions{30s, false, "30"});
    CHECK_FALSE(wait.is_due(kStart + 1h));
    wait.ended(2, kStart + 1s);
    wait.ended(3, kStart + 2s);
    CHECK(wait.deadline() == kStart + 31s);
    CHECK_FALSE(wait.is_due(kStart + 30s));
    CHECK(wait.is_due(kStart + 31s));
    wait.round_begins();
    CHECK_FALSE(wait.deadline());
    wait.ended(4, kStart + 100s);
    CHECK(wait.deadline() == kStart + 130s);
}

TEST_CASE("exit wait: what the nodes answer becomes one line") {
    struct Row {
        std::vector<StillRunning> answers;
        std::string line;
    };
    const std::string before = "30 s after rank 0 ended with 0, ";
    const Row rows[] = {
        {{running({}), running({})}, "none"},
        {{running({}), running({5})}, before + "1 rank is still running: 5 (--exit-wait 30)"},
        {{running({1}), running({5, 6})}, before + "3 ranks are still running: 1,5-6 (--exit-wait 30)"},
        {{running({3}), running({4, 5})}, before + "3 ranks are still running: 3-5 (--exit-wait 30)"},
        // No answer: nobody has said that they ended.
        {{running({1})}, before + "5 ranks are still running: 1,4-7 (--exit-wait 30)"},
        {{{0, 3, {{1, 1}}, 9}, running({})},
         before + "3 ranks are still running: 1 and 2 more (--exit-wait 30)"},
        // What is not so: ranks of others, backwards, twice, a count without ranks or beyond the node's.
        {{{0, 9, {{1, 1}, {5, 5}}, 9}, running({})},
         before + "4 ranks are still running: 1 and 3 more (--exit-wait 30)"},
        {{{0, 2, {{3, 1}, {-7, 2}}, 9}, {0, 5, {}, 9}}, "none"},
        {{{0, -5, {{1, 2}, {2, 3}, {1, 1}}, 9}, running({})},
         before + "2 ranks are still running: 1-2 (--exit-wait 30)"},
    };
    for (const Row& row : rows) {
        INFO(row.line);
        ExitWait wait = asking(2);
        CHECK(wait.deadline() == kStart + 30s + ExitWait::kAnswerTimeout);
        for (std::size_t node = 0; node < row.answers.size(); ++node)
            CHECK(wait.answer(static_cast<int>(node), row.answers[node]) == (node == 1));
        CHECK_FALSE(wait.answer(0, running({0})));  // once said, and nobody asked twice
        CHECK_FALSE(wait.answer(7, running({28})));
        CHECK(wait.conclude().value_or("none") == row.line);
        CHECK_FALSE(wait.deadline());
    }
}

TEST_CASE("exit wait: a line has room for so many ranges") {
    ExitWait wait = asking(20);
    for (int node = 0; node < 20; ++node) wait.answer(node, running({4 * node, 4 * node + 2}));
    const std::string line = wait.conclude().value();
    CHECK_THAT(line, Catch::Contains(", 40 ranks are still running: 0,2,4,6,") &&
                         Catch::Contains(",28,30 and 24 more (--exit-wait 30)"));
}

TEST_CASE("exit wait: node 0 hears once who still runs, and the job goes on") {
    Coordinator job = make_waiting(3, false);
    join_all(job, {2, 2, 2});
    CHECK_FALSE(job.next_deadline());
    CHECK(job.receive(2, RankSucceeded{0, 2}, kStart + 1s).empty());
    CHECK(job.receive(1, RankSucceeded{0, 0}, kStart + 5s).empty());
    job.receive(2, WorkersSucceeded{0}, kStart + 6s);
    REQUIRE(job.next_deadline() == kStart + 31s);
    CHECK(job.tick(kStart + 30s).empty());
    // The one whose workers are done is not asked.
    const auto asked = job.tick(kStart + 31s);
    REQUIRE(of_type<WhoRuns>(asked).size() == 2);
    CHECK(asked[0].to == 1);
    CHECK(asked[1].to == 3);
    CHECK(job.receive(3, running({4, 5}), kStart + 31s).empty());
    const auto told = job.receive(1, running({1}), kStart + 31s);
    REQUIRE(told.size() == 1);
    CHECK(told[0].to == 1);
    CHECK(remarks(told) ==
          std::vector<std::string>{
              "30 s after rank 2 ended with 0, 3 ranks are still running: 1,4-5 (--exit-wait 30)"});
    CHECK_FALSE(job.next_deadline());
    CHECK(job.tick(kStart + 1000s).empty());
    CHECK(job.receive(1, WorkersSucceeded{0}, kStart + 1000s).empty());
    const auto finish = of_type<Finish>(job.receive(3, WorkersSucceeded{0}, kStart + 1001s));
    REQUIRE(finish.size() == 3);
    CHECK(finish[0].exit_code == 0);
}

TEST_CASE("exit wait: a node that does not answer holds nobody up") {
    Coordinator job = make_waiting(2, false);
    join_all(job, {1, 2});
    job.receive(1, RankSucceeded{0, 0}, kStart);
    job.tick(kStart + 30s);
    job.receive(1, running({}), kStart + 30s);
    REQUIRE(job.next_deadline() == kStart + 35s);
    SECTION("its ranks count as running") {
        CHECK(remarks(job.tick(kStart + 35s)) ==
              std::vector<std::string>{
                  "30 s after rank 0 ended with 0, 2 ranks are still running: 1-2 (--exit-wait 30)"});
    }
    SECTION("unless they have all ended since") {
        job.receive(1, WorkersSucceeded{0}, kStart + 30s);
        const auto out = job.receive(2, WorkersSucceeded{0}, kStart + 31s);
        CHECK(of_type<Finish>(out).size() == 2);
        CHECK(job.tick(kStart + 35s).empty());
    }
}

TEST_CASE("exit wait: with kill, the first rank that still runs is the job's failure") {
    Coordinator job = make_waiting(2, true);
    join_all(job, {2, 2});
    job.receive(1, RankSucceeded{0, 1}, kStart);
    job.tick(kStart + 30s);
    job.receive(2, running({2, 3}), kStart + 30s);
    const auto out = job.receive(1, running({}), kStart + 30s);
    CHECK(remarks(out).size() == 1);
    const auto stops = of_type<Stop>(out);
    REQUIRE(stops.size() == 2);
    const Failure& cause = stops[0].cause;
    CHECK(cause.kind == Failure::Kind::overdue);
    CHECK(cause.rank == 2);
    CHECK(cause.local_rank == 0);
    CHECK(cause.node_rank == 1);
    CHECK(cause.host == "gpu1");
    CHECK(cause.pid == 1002);
    CHECK(cause.message == "still running 30 s after rank 1 had ended with 0 (--exit-wait 30:kill)");
    // What the ranks do then is no better reason, and that all end with 0 no success.
    job.receive(2, failed_with(7, 3), kStart + 31s);
    job.receive(1, gone(0, true), kStart + 31s);
    const auto finish = of_type<Finish>(job.receive(2, gone(0, true), kStart + 32s));
    REQUIRE(finish.size() == 2);
    CHECK(finish[0].exit_code == kExitOverdue);
    CHECK(finish[0].cause->rank == 2);
}

TEST_CASE("exit wait: with kill, a restart may follow, and the next round waits anew") {
    Coordinator job = make_waiting(1, true, 1);
    join_all(job, {2});
    job.receive(1, RankSucceeded{0, 1}, kStart);
    job.tick(kStart + 30s);
    CHECK(of_type<Stop>(job.receive(1, running({0}), kStart + 30s)).size() == 1);
    const auto out = job.receive(1, gone(0, false), kStart + 30s);
    REQUIRE(of_type<RoundReady>(out).size() == 1);
    CHECK_THAT(of_type<RoundReady>(out)[0].restart_reason,
               Catch::Equals("rank 0 on node 0 (gpu0): still running 30 s after rank 1 had ended with 0 "
                             "(--exit-wait 30:kill)"));
    CHECK_FALSE(job.next_deadline());
    job.receive(1, RankSucceeded{1, 0}, kStart + 40s);
    CHECK(job.next_deadline() == kStart + 70s);
    // Of the round before.
    job.receive(1, running({0}), kStart + 41s);
    CHECK(of_type<WhoRuns>(job.tick(kStart + 70s)).size() == 1);
    CHECK(of_type<Stop>(job.receive(1, running({1}, 1), kStart + 70s)).size() == 1);
}

TEST_CASE("exit wait: a failure ends the wait") {
    Coordinator job = make_waiting(2, true);
    join_all(job, {1, 1});
    job.receive(1, RankSucceeded{0, 0}, kStart);
    job.receive(2, failed_with(7, 1), kStart + 1s);
    CHECK_FALSE(job.next_deadline());
    CHECK(job.tick(kStart + 30s).empty());
}

}  // namespace ddprun
