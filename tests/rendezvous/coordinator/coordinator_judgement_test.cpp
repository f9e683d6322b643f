// A program of the user's is asked what follows a failure, one story each.
#include <fmt/core.h>

#include "tests/support/membership_story.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

using Verdict = Judgement::Answer;

// A running job, whose program is asked.
Story asking(int least, int most, RestartOptions restarts) {
    Story story(least, most, {.exclude_after = 0}, restarts, true);
    for (int agent = 1; agent <= most; ++agent) story.come(agent);
    REQUIRE(story.has_begun());
    return story;
}

// Until its workers are gone.
void fail_all(Story& story, int agent, std::initializer_list<int> agents) {
    story.fails(agent);
    story.stopped(agents);
    CHECK_FALSE(story.has_begun());
}

std::string remarks(const Story& story) {
    std::string all;
    for (const Remark& remark : of_type<Remark>(story.last)) all += remark.text + "\n";
    return all;
}

}  // namespace

TEST_CASE("the host's agent is asked once all workers are gone, and its word counts") {
    Story story = asking(2, 2, {.max_restarts = 2, .no_restart_on = {{7, 7}}});
    story.fails(2);
    CHECK(of_type<JudgeFailure>(story.last).empty());
    story.stopped({1, 2});
    REQUIRE(story.last.size() == 1);
    CHECK(story.last[0].to == 1);
    const auto asked = of_type<JudgeFailure>(story.last);
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].round == 0);
    CHECK(asked[0].failure.host == "gpu2");
    CHECK(asked[0].failure.exit_code == 7);
    CHECK(story.coordinator->next_deadline() == story.now + Aftermath::kJudgementTimeout);
    story.say(1, Judgement{0, Verdict::restart});
    CHECK(story.order() == Order{{1, 0}, {2, 1}});
    CHECK(story.rounds.at(2).restart_count == 1);

    fail_all(story, 2, {1, 2});
    story.say(1, Judgement{1, Verdict::stop});
    CHECK(story.finished.at(2).message == "no restart: --on-failure says stop");
    CHECK(story.finished.at(2).exit_code == 7);
}

TEST_CASE("who was not asked, or about another round, says nothing") {
    Story story = asking(2, 2, {.max_restarts = 2});
    story.say(1, Judgement{0, Verdict::stop});
    fail_all(story, 2, {1, 2});
    story.say(2, Judgement{0, Verdict::stop});
    story.say(1, Judgement{3, Verdict::stop});
    CHECK(story.finished.empty());
    story.say(1, Judgement{0, Verdict::restart});
    CHECK(story.has_begun());
    story.say(1, Judgement{1, Verdict::stop});
    CHECK(story.finished.empty());
}

TEST_CASE("without an answer the job decides by itself, at the latest when the time is over") {
    for (const bool silent : {false, true}) {
        Story story = asking(2, 2, {.max_restarts = 2, .no_restart_on = {{7, 7}}});
        fail_all(story, 2, {1, 2});
        if (silent) {
            story.wait();
            CHECK(story.now == kStart + Aftermath::kJudgementTimeout);
            CHECK(remarks(story) == "--on-failure: no answer within 15 s; ddprun decides by itself\n");
        } else {
            story.say(1, Judgement{0, Verdict::none});
            CHECK(remarks(story).empty());
        }
        CHECK(story.finished.at(1).message == "no restart: exit code 7 is among --no-restart-on");
    }
}

TEST_CASE("a node that the program names is left out where that is possible") {
    struct {
        int node;
        std::string obstacle;
    } const rows[] = {{0, "it hosts the rendezvous"},
                      {7, "the job has no such node"},
                      {-1, "the job has no such node"},
                      {2, "it is not there any more"}};
    for (const auto& row : rows) {
        Story story = asking(2, 3, {.max_restarts = 2});
        fail_all(story, 2, {1, 2, 3});
        story.lose(3);
        story.say(1, Judgement{0, Verdict::exclude, row.node});
        CHECK(remarks(story) == fmt::format("--on-failure: exclude {}: {}; ddprun decides by itself\n",
                                            row.node, row.obstacle));
        CHECK(story.order() == Order{{1, 0}, {2, 1}});
    }
    Story story = asking(2, 3, {.max_restarts = 5, .no_restart_on = {{7, 7}}});
    fail_all(story, 1, {1, 2, 3});
    story.say(1, Judgement{0, Verdict::exclude, 1});
    CHECK(remarks(story) == "node 1 (gpu2) is left out: --on-failure says so\n");
    CHECK(story.order() == Order{{1, 0}, {3, 1}});
    CHECK(story.finished.at(2).exit_code == 7);
    CHECK(story.finished.at(2).message == "the job goes on without this node: --on-failure says so");
    fail_all(story, 1, {1, 3});
    story.say(1, Judgement{1, Verdict::exclude, 1});
    CHECK(remarks(story) == "--on-failure: exclude 1: the job needs it; ddprun decides by itself\n");
    CHECK(story.finished.at(1).message == "no restart: exit code 7 is among --no-restart-on");
}

TEST_CASE("nobody is asked about a resize, a signal, or a job that the user ends") {
    Story lost = asking(1, 2, {});
    lost.lose(2);
    lost.stopped({1});
    CHECK(of_type<JudgeFailure>(lost.last).empty());
    Story signalled = asking(2, 2, {.max_restarts = 2});
    signalled.say(1, AgentSignalled{0, 15});
    signalled.stopped({1, 2}, true);
    CHECK(signalled.finished.at(1).exit_code == kExitPreempted);
    Story late = asking(2, 2, {.max_restarts = 2});
    fail_all(late, 2, {1, 2});
    late.say(2, AgentSignalled{0, 15});
    REQUIRE(late.finished.size() == 2);
    CHECK(late.finished.at(1).cause->kind == Failure::Kind::signalled);
    late.say(1, Judgement{0, Verdict::restart});
    CHECK_FALSE(late.has_begun());
}

TEST_CASE("who comes or is lost while the program thinks waits for the next round, or is missed in it") {
    Story story = asking(1, 3, {.max_restarts = 2});
    fail_all(story, 2, {1, 2, 3});
    story.lose(2);
    story.come(4);
    CHECK(of_type<Parked>(story.last).size() == 1);
    story.say(1, Judgement{0, Verdict::restart});
    CHECK(story.order() == Order{{1, 0}, {4, 1}, {3, 2}});
}

TEST_CASE("a hang on another node is asked about as that node's, and ends with its own code") {
    Story story = asking(2, 2, {.max_restarts = 1});
    WorkerFailed hang{.round = 0, .failure = {.kind = Failure::Kind::hang}};
    hang.failure.rank = 1;
    hang.failure.exit_code = kExitOverdue;
    hang.failure.message = "rank 1 sleeps";
    story.say(1, hang);
    const auto stops = of_type<Stop>(story.last);
    REQUIRE(stops.size() == 2);
    CHECK((stops[0].cause.kind == Failure::Kind::hang && stops[0].cause.node_rank == 1));
    CHECK((stops[0].cause.host == "gpu2" && stops[0].cause.rank == 1));
    story.stopped({1, 2});
    REQUIRE(of_type<JudgeFailure>(story.last).size() == 1);
    CHECK(of_type<JudgeFailure>(story.last)[0].failure.kind == Failure::Kind::hang);
    story.say(1, Judgement{0, Verdict::none});
    CHECK(story.finished.at(2).exit_code == kExitOverdue);
    CHECK(story.finished.at(2).message == "no restart: --hang-timeout says stop");
}

}  // namespace ddprun
