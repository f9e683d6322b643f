// Nodes that come and go between the rounds of a job, one story each.
#include "rendezvous/control/control_text.hpp"
#include "tests/support/membership_story.hpp"

namespace ddprun {

using namespace std::chrono_literals;

TEST_CASE("a job begins with the least after the last call, and at once with all") {
    Story some(2, 4);
    some.come(1);
    CHECK(some.coordinator->next_deadline() == kStart + 3s);  // the status
    some.come(2);
    some.now += 1s;
    some.come(3);
    CHECK_FALSE(some.has_begun());
    while (!some.has_begun()) some.wait();
    CHECK(some.now == kStart + kLastCall);
    CHECK(some.order() == Order{{1, 0}, {2, 1}, {3, 2}});
    CHECK(some.rounds.at(1).world_size == 3);
    CHECK(some.rounds.at(1).group_world_size == 3);

    Story all(2, 3);
    for (const int agent : {1, 2, 3}) all.come(agent);
    CHECK(all.has_begun());
}

TEST_CASE("the last call is off when a node leaves before it") {
    Story story(2, 4);
    story.come(1);
    story.come(2);
    story.lose(2);
    story.now = kStart + 2 * kLastCall;
    story.take(story.coordinator->tick(story.now));
    CHECK_FALSE(story.has_begun());
    story.come(3);
    while (!story.has_begun()) story.wait();
    CHECK(story.now == kStart + 3 * kLastCall);
}

TEST_CASE("others never take the place of the host's own agent") {
    Story story(1, 2);
    story.come(2);
    story.come(3);
    CHECK(of_type<Parked>(story.last).size() == 1);
    story.now += 2 * kLastCall;
    story.take(story.coordinator->tick(story.now));
    CHECK_FALSE(story.has_begun());
    story.come(1);
    CHECK(story.order() == Order{{1, 0}, {2, 1}});
}

TEST_CASE("a lost node ends the round, and the others go on in their order; nobody's budget is used") {
    Story story(2, 4);
    for (const int agent : {1, 2, 3, 4}) story.come(agent);
    story.lose(2);
    CHECK(of_type<Stop>(story.last).size() == 3);
    story.stopped({1, 3, 4});
    const auto word = of_type<Restarting>(story.last);
    REQUIRE(word.size() == 3);
    CHECK(word[0].resize == 1);
    CHECK(word[0].nodes == 3);
    CHECK(to_text(word[0]) ==
          "node 1 (gpu2) was lost; another round with 3 nodes (resize 1) follows in 1000 ms");
    story.wait();
    CHECK(story.now == kStart + Coordinator::kKillTime);
    CHECK(story.order() == Order{{1, 0}, {3, 1}, {4, 2}});
    CHECK(story.rounds.at(3).restart_count == 0);
    CHECK(story.rounds.at(3).resizes == 1);
    CHECK(story.rounds.at(3).round == 1);
    CHECK(story.rounds.at(3).restart_reason == "node 1 (gpu2) was lost");
}

TEST_CASE("a lost node's failing peers use up no restart either") {
    Story story(1, 2);
    story.come(1);
    story.come(2);
    story.fails(1);
    story.lose(2);
    story.stopped({1});
    story.wait();
    CHECK(story.order() == Order{{1, 0}});
    CHECK(story.finished.empty());
}

TEST_CASE("workers of a node that cannot be asked have their grace before others begin") {
    for (const bool gave_up : {false, true}) {
        Story story(1, 2);
        story.come(1);
        story.come(2);
        story.now += 5s;
        if (gave_up) story.say(2, LeaseOver{});
        story.lose(2, gave_up);
        story.stopped({1});
        CHECK_FALSE(story.has_begun());
        story.wait();
        CHECK(story.has_begun());
        CHECK(story.now == kStart + 5s + kGrace);
    }
}

TEST_CASE("who comes while workers run is let in by a new round, unless the user wants that later or never") {
    for (const Resize resize : {Resize::now, Resize::failure, Resize::never}) {
        Story story(1, 3, {.resize = resize}, {.max_restarts = 5, .min_uptime = 0ms});
        story.come(1);
        story.come(2);
        while (!story.has_begun()) story.wait();
        story.come(3);
        REQUIRE(of_type<Parked>(story.last).size() == 1);
        CHECK(of_type<Stop>(story.last).empty() == (resize != Resize::now));
        if (resize != Resize::now) story.fails(2);
        story.stopped({1, 2});
        CHECK(story.has_begun());
        const Order with_both{{1, 0}, {2, 1}}, with_all{{1, 0}, {2, 1}, {3, 2}};
        CHECK(story.order() == (resize == Resize::never ? with_both : with_all));
        CHECK(story.rounds.at(1).restart_count == (resize == Resize::now ? 0 : 1));
        CHECK(story.rounds.at(1).resizes == (resize == Resize::now ? 1 : 0));
        story.lose(2);
        story.stopped({1, 3});
        story.wait();
        CHECK(story.order() == Order{{1, 0}, {3, 1}});
    }
}

TEST_CASE("a failure while a round ends for a newcomer is one") {
    Story story(1, 2, {}, {.max_restarts = 5, .min_uptime = 0ms});
    story.come(1);
    while (!story.has_begun()) story.wait();
    story.come(2);
    WorkersGone failed = gone(0, false);
    failed.failure = failed_with(3, 0).failure;
    story.say(1, failed);
    CHECK(story.order() == Order{{1, 0}, {2, 1}});
    CHECK(story.rounds.at(1).restart_count == 1);
    CHECK(story.rounds.at(1).resizes == 0);
}

TEST_CASE("a job that ends while a round ends for a newcomer ends by what ends it") {
    for (const bool lost : {false, true}) {
        Story story(2, 3);
        story.come(1);
        story.come(2);
        while (!story.has_begun()) story.wait();
        story.come(3);
        story.take(story.coordinator->closed(3, story.now));
        if (lost) {
            story.lose(2);
        } else {
            story.say(2, AgentSignalled{0, 15});
            story.stopped({2}, true);
        }
        story.stopped({1}, true);
        while (story.finished.empty()) story.wait();
        const Failure::Kind kind = story.finished.at(1).cause.value().kind;
        CHECK(kind == (lost ? Failure::Kind::node_lost : Failure::Kind::signalled));
        CHECK(story.finished.at(1).exit_code == (lost ? kExitUnavailable : kExitPreempted));
    }
}

TEST_CASE("a round that some are done with is not begun again for a newcomer, who hears of the end") {
    Story story(1, 3);
    story.come(1);
    story.come(2);
    while (!story.has_begun()) story.wait();
    story.say(2, WorkersSucceeded{0});
    story.come(3);
    CHECK(of_type<Stop>(story.last).empty());
    story.say(1, WorkersSucceeded{0});
    REQUIRE(story.finished.size() == 3);
    CHECK(story.finished.at(3).exit_code == 0);
    for (const int agent : {1, 2, 3}) {
        CHECK_FALSE(story.coordinator->empty());
        story.say(agent, Goodbye{});
    }
    CHECK(story.coordinator->empty());
}

TEST_CASE("a spare waits, and takes a lost node's place: the world keeps its size") {
    Story story(2, 3, {.spares = 1});
    story.come(1, 2);
    story.come(2, 2);
    CHECK(story.has_begun());
    story.come(3, 2);
    CHECK(of_type<Parked>(story.last).at(0).reason == "the job has its 2 nodes; this one waits for a place");
    CHECK(of_type<Stop>(story.last).empty());
    story.lose(2);
    story.stopped({1});
    story.wait();
    CHECK(story.order() == Order{{1, 0}, {3, 1}});
    CHECK(story.rounds.at(3).world_size == 4);
}

TEST_CASE("a job of fixed size with restarts waits for its lost node, which takes its old place") {
    Story story(3, 3, {}, {.max_restarts = 1, .min_uptime = 0ms});
    for (const int agent : {1, 2, 3}) story.come(agent);
    story.lose(2);
    story.stopped({1, 3});
    story.wait();
    const auto waiting = of_type<Waiting>(story.last);
    REQUIRE(waiting.size() == 2);
    CHECK(to_text(waiting[0]) == "joined 2/3, missing node 1");
    Hello again = story.hello_from(2);
    again.pid = 4711;
    story.take(story.coordinator->receive(9, again, story.now));
    CHECK(story.order() == Order{{1, 0}, {9, 1}, {3, 2}});
    CHECK(story.rounds.at(9).restart_count == 1);
}

TEST_CASE("who returns before its loss is noticed waits until it is; a stranger by its number is refused") {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 2};
    options.restarts = {.max_restarts = 1, .min_uptime = 0ms};
    Coordinator coordinator(options, kStart);
    join_all(coordinator, {1, 1});
    Hello heir = hello(1, 2);
    heir.pid = 4711;
    CHECK(of_type<Parked>(coordinator.receive(3, heir, kStart)).size() == 1);
    Hello stranger = heir;
    stranger.host = "elsewhere";
    CHECK_THAT(of_type<Refused>(coordinator.receive(4, stranger, kStart)).at(0).reason,
               Catch::Contains("has already joined from gpu1"));
    coordinator.closed(2, kStart);
    coordinator.receive(1, gone(0, false), kStart);
    const auto ready = of_type<RoundReady>(coordinator.tick(coordinator.next_deadline().value()));
    REQUIRE(ready.size() == 2);
    CHECK(ready[1].group_rank == 1);
}

TEST_CASE("nobody is waited for beyond the join timeout, and the loss is what ended the job") {
    Story story(2, 3);
    story.come(1);
    story.come(2);
    while (!story.has_begun()) story.wait();
    story.lose(2);
    story.stopped({1});
    story.wait();
    CHECK(to_text(of_type<Waiting>(story.last).at(0)) == "joined 1, the job needs 2 to 3 nodes");
    const TimePoint since = story.now;
    while (story.finished.empty()) story.wait();
    CHECK(story.now == since + 100s);
    CHECK(story.finished.at(1).exit_code == kExitUnavailable);
    CHECK(story.finished.at(1).cause.value().kind == Failure::Kind::node_lost);
    CHECK(story.finished.at(1).message == "no node has come in its place within 100 s (--join-timeout)");
}

TEST_CASE("a lost node without restarts ends a job of fixed size") {
    Story story(2, 2);
    story.come(1);
    story.come(2);
    story.lose(2);
    story.stopped({1});
    REQUIRE(story.finished.contains(1));
    CHECK(story.finished.at(1).exit_code == kExitUnavailable);
}

TEST_CASE("a signalled agent leaves, and the others go on") {
    Story story(2, 3);
    for (const int agent : {1, 2, 3}) story.come(agent);
    story.say(2, AgentSignalled{0, 15});
    CHECK(of_type<Stop>(story.last).size() == 3);
    story.stopped({1, 2, 3}, true);
    CHECK(story.finished.empty());
    story.wait();
    CHECK(story.now == kStart + Aftermath::kSignalsTogether);
    CHECK(story.order() == Order{{1, 0}, {3, 1}});
    REQUIRE(story.finished.size() == 1);
    CHECK(story.finished.at(2).exit_code == kExitPreempted);
    CHECK(story.finished.at(2).message == "the job goes on without this node");
    story.say(2, Goodbye{});
    story.lose(2);
    CHECK(story.last.empty());
}

TEST_CASE("signals to all agents within a moment end the job, whoever is first") {
    for (const bool host_first : {true, false}) {
        Story story(1, 3);
        for (const int agent : {1, 2, 3}) story.come(agent);
        story.say(host_first ? 1 : 2, AgentSignalled{0, 15});
        story.stopped({1, 2, 3}, true);
        if (!host_first) {
            story.now += 500ms;
            story.say(3, AgentSignalled{0, 15});
            story.say(1, AgentSignalled{0, 15});
        }
        REQUIRE(story.finished.size() == 3);
        for (const auto& [agent, finish] : story.finished) CHECK(finish.exit_code == kExitPreempted);
    }
}

TEST_CASE("a signal that leaves too few nodes ends the job") {
    Story story(2, 3);
    story.come(1);
    story.come(2);
    while (!story.has_begun()) story.wait();
    story.say(2, AgentSignalled{0, 15});
    story.stopped({1, 2}, true);
    CHECK(of_type<Restarting>(story.last).empty());
    CHECK(story.finished.size() == 2);
    CHECK(story.finished.at(1).exit_code == kExitPreempted);
}

TEST_CASE("nodes without workers take part, but do not make a job") {
    Story story(1, 3);
    story.come(1, 0);
    story.come(2, 2);
    while (!story.has_begun()) story.wait();
    CHECK(story.rounds.at(1).world_size == 2);
    story.say(1, WorkersSucceeded{0});
    story.lose(2);
    story.stopped({1});
    story.wait();
    CHECK_FALSE(story.has_begun());  // somebody with workers is awaited
    story.come(3, 4);
    CHECK(story.order() == Order{{1, 0}, {3, 1}});

    Story idle(1, 2);
    idle.come(1, 0);
    idle.come(2, 0);
    const auto refused = of_type<Refused>(idle.last);
    REQUIRE(refused.size() == 2);
    CHECK(refused[0].reason == "no node has workers: --nproc-per-node is 0 on each");
}

TEST_CASE("a clock that jumps ahead gives the workers of a lost node no less time to end") {
    CoordinatorOptions options{
        .version = "1", .job_id = "job", .nnodes = 2, .heartbeat = std::chrono::seconds(6)};
    options.elasticity = {.min_nodes = 1, .last_call = std::chrono::seconds(1)};
    const auto from = [](int agent) {
        Hello one = hello(kUnnumbered, 2);
        one.min_nodes = 1;
        one.pid = agent;
        one.grace_ms = static_cast<int>(kGrace.count());
        return one;
    };
    options.own_agent = from(1);
    Coordinator coordinator(options, kStart);
    coordinator.receive(1, from(1), kStart);
    REQUIRE(of_type<RoundReady>(coordinator.receive(2, from(2), kStart)).size() == 2);
    coordinator.closed(2, kStart, false);
    coordinator.receive(1, gone(0, false), kStart);
    const TimePoint jumped = kStart + std::chrono::hours(1);
    CHECK(of_type<RoundReady>(coordinator.tick(jumped)).empty());
    TimePoint now = jumped;
    for (Coordinator::Outbox out; of_type<RoundReady>(out).empty();) {
        now = coordinator.next_deadline().value();
        out = coordinator.tick(now);
    }
    const HeartbeatTerms terms{options.heartbeat};
    CHECK(now >= jumped + terms.patience() - terms.margin() + kGrace);
}

}  // namespace ddprun
