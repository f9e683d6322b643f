// Nodes whose workers fail first again and again, one story each.
#include "tests/support/membership_story.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

const RestartOptions kPatient{.max_restarts = 20, .min_uptime = 0ms, .same_failure = 0};

Story begun(int least, int most, Elasticity elasticity, RestartOptions restarts = kPatient) {
    Story story(least, most, elasticity, restarts);
    for (int agent = 1; agent <= elasticity.seats(most); ++agent) story.come(agent);
    while (!story.has_begun()) story.wait();
    return story;
}

// A round that fails first on `agent`, and the next one, if there is one; the remarks of both.
std::vector<std::string> fail(Story& story, int agent, std::initializer_list<int> agents) {
    std::vector<std::string> remarks;
    const auto keep = [&] {
        for (const Remark& remark : of_type<Remark>(story.last)) remarks.push_back(remark.text);
    };
    story.fails(agent);
    keep();
    for (const int one : agents) {
        story.stopped({one});
        keep();
    }
    return remarks;
}

}  // namespace

TEST_CASE("a node that fails first too often is left out where a spare can take its place") {
    Story story = begun(2, 3, {.spares = 1, .exclude_after = 2});
    story.come(3);
    CHECK(fail(story, 2, {1, 2}).empty());
    CHECK(story.order() == Order{{1, 0}, {2, 1}});
    CHECK(fail(story, 2, {1, 2}) ==
          std::vector<std::string>{
              "node 1 (gpu2) is left out: its workers failed first in 2 rounds (--exclude-after 2)"});
    CHECK(story.order() == Order{{1, 0}, {3, 1}});
    CHECK(story.rounds.at(3).restart_count == 2);
    const Finish& finish = story.finished.at(2);
    CHECK(finish.exit_code == 7);
    CHECK(finish.message ==
          "the job goes on without this node: its workers failed first in 2 rounds (--exclude-after 2)");
    REQUIRE(finish.cause);
    CHECK(finish.cause->host == "gpu2");
    CHECK(story.finished.size() == 1);
}

TEST_CASE("a node that fails first too often is left out where the least allow it, and not below") {
    Story story = begun(2, 4, {.exclude_after = 1});
    CHECK(fail(story, 3, {1, 2, 3, 4}).size() == 1);
    CHECK(story.order() == Order{{1, 0}, {2, 1}, {4, 2}});
    CHECK(fail(story, 4, {1, 2, 4}).size() == 1);
    CHECK(story.order() == Order{{1, 0}, {2, 1}});
    CHECK(fail(story, 2, {1, 2}).empty());
    CHECK(story.order() == Order{{1, 0}, {2, 1}});
    // What could not be done then is done when others have come.
    story.come(5);
    story.stopped({1, 2});
    CHECK(story.order() == Order{{1, 0}, {2, 1}, {5, 2}});
    CHECK(fail(story, 2, {1, 2, 5}) ==
          std::vector<std::string>{
              "node 1 (gpu2) is left out: its workers failed first in 2 rounds (--exclude-after 1)"});
    CHECK(story.order() == Order{{1, 0}, {5, 1}});
}

TEST_CASE("a job of a fixed number of nodes leaves one out for another that waits") {
    Story story = begun(2, 2, {.exclude_after = 1});
    CHECK(fail(story, 2, {1, 2}).empty());
    story.come(3);
    CHECK(fail(story, 2, {1, 2}).size() == 1);
    CHECK(story.order() == Order{{1, 0}, {3, 1}});
}

TEST_CASE("the node that hosts is never left out, and nobody is with 0") {
    Story host = begun(1, 3, {.exclude_after = 1});
    CHECK(fail(host, 1, {1, 2, 3}).empty());
    CHECK(host.order() == Order{{1, 0}, {2, 1}, {3, 2}});
    Story never = begun(1, 3, {.exclude_after = 0});
    for (int i = 0; i < 5; ++i) CHECK(fail(never, 2, {1, 2, 3}).empty());
}

TEST_CASE("a machine that is left out gets no place again") {
    Story story = begun(1, 3, {.exclude_after = 1});
    Hello waiting = story.hello_from(7);
    waiting.host = "gpu2";
    story.fails(2);
    story.take(story.coordinator->receive(7, waiting, story.now));
    CHECK(of_type<Parked>(story.last).size() == 1);
    story.stopped({1, 3});
    story.stopped({2});
    CHECK(story.order() == Order{{1, 0}, {3, 1}});
    CHECK(of_type<Refused>(story.last).size() == 1);
    story.take(story.coordinator->closed(2, story.now));
    story.come(2);
    const auto refused = of_type<Refused>(story.last);
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].exit_code == kExitNotAdmitted);
    CHECK(refused[0].reason ==
          "gpu2 is left out of the job: its workers failed first in 1 round (--exclude-after 1)");
    // Another machine takes its place.
    story.come(4);
    story.stopped({1, 3});
    CHECK(story.order() == Order{{1, 0}, {4, 1}, {3, 2}});
}

TEST_CASE("a machine of which another node takes part is not left out as a whole") {
    Story story = begun(1, 3, {.exclude_after = 1});
    CHECK(fail(story, 2, {1, 2, 3}).size() == 1);
    Hello again = story.hello_from(7);
    again.host = "gpu3";
    story.take(story.coordinator->receive(7, again, story.now));
    story.stopped({1, 3});
    CHECK(story.order() == Order{{1, 0}, {7, 1}, {3, 2}});
    CHECK(fail(story, 7, {1, 3, 7}).size() == 1);
    CHECK(story.order() == Order{{1, 0}, {3, 1}});
    Hello other = story.hello_from(8);
    other.host = "gpu3";
    story.take(story.coordinator->receive(8, other, story.now));
    CHECK(of_type<Refused>(story.last).empty());
}

TEST_CASE("a node is not left out after all when others are lost before the next round begins") {
    RestartOptions restarts = kPatient;
    restarts.backoff_min = restarts.backoff_max = 5s;
    Story story = begun(2, 3, {.exclude_after = 1}, restarts);
    CHECK(fail(story, 2, {1, 2, 3}).size() == 1);
    CHECK_FALSE(story.has_begun());
    story.lose(3);
    story.wait();
    CHECK(story.order() == Order{{1, 0}, {2, 1}});
    REQUIRE(of_type<Remark>(story.last).size() == 1);
    CHECK(of_type<Remark>(story.last)[0].text ==
          "node 1 (gpu2) is not left out after all: too few others are there");
    // Nor is its machine.
    story.lose(2);
    story.stopped({1});
    story.wait();
    story.come(2);
    CHECK(of_type<Refused>(story.last).empty());
}

TEST_CASE("failures beside a lost node are nobody's fault") {
    Story story = begun(1, 4, {.exclude_after = 1});
    story.fails(2);
    story.lose(3);
    story.stopped({1, 2, 4});
    story.wait();
    CHECK(story.order() == Order{{1, 0}, {2, 1}, {4, 2}});
}

TEST_CASE("the same failure on one node leaves that out first, and elsewhere ends the job") {
    Story story = begun(1, 4, {.exclude_after = 3}, {.max_restarts = 20, .min_uptime = 0ms});
    for (int i = 0; i < 2; ++i) CHECK(fail(story, 3, {1, 2, 3, 4}).empty());
    CHECK(fail(story, 3, {1, 2, 3, 4}).size() == 1);
    CHECK(story.order() == Order{{1, 0}, {2, 1}, {4, 2}});
    fail(story, 4, {1, 2, 4});
    CHECK_FALSE(story.has_begun());
    CHECK(story.finished.at(1).message == "no restart: the same failure 4 times in a row (--same-failure 3)");
}

}  // namespace ddprun
