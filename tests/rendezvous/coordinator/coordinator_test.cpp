#include "rendezvous/coordinator/coordinator.hpp"

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/admission.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;

TEST_CASE("survivors are unknown on nodes that were lost before they said that nothing is left") {
    Coordinator coordinator = make(4);
    join_all(coordinator, {1, 1, 1, 1});
    coordinator.receive(3, WorkersSucceeded{0}, kStart);
    coordinator.closed(3, kStart);  // nothing was left there
    coordinator.receive(1, failed_with(7, 0), kStart);
    coordinator.closed(4, kStart);
    coordinator.receive(1, gone(0, false), kStart);
    const auto finish = of_type<Finish>(coordinator.receive(2, gone(0, false), kStart));
    REQUIRE(finish.size() == 2);
    CHECK(finish[0].unknown_node_count == 1);
    CHECK(finish[0].unknown_nodes == std::vector<std::string>{"node 3 (gpu3)"});
}

TEST_CASE("of many lost nodes some are named") {
    constexpr int kNodes = 40;
    Coordinator coordinator = make(kNodes);
    join_all(coordinator, std::vector<int>(kNodes, 1));
    coordinator.receive(1, failed_with(7, 0), kStart);
    for (std::uint64_t connection = 2; connection <= kNodes; ++connection)
        coordinator.closed(connection, kStart);
    const auto finish = of_type<Finish>(coordinator.receive(1, gone(0, false), kStart));
    REQUIRE(finish.size() == 1);
    CHECK(finish[0].unknown_node_count == kNodes - 1);
    CHECK(finish[0].unknown_nodes.size() == kMaxUnknownListed);
}

TEST_CASE("the job succeeds when every node has, and the host leaves last") {
    Coordinator coordinator = make(2);
    join_all(coordinator, {1, 1});
    CHECK(coordinator.receive(1, WorkersSucceeded{0}, kStart).empty());
    auto finish = of_type<Finish>(coordinator.receive(2, WorkersSucceeded{0}, kStart));
    REQUIRE(finish.size() == 2);
    CHECK(finish[0] == Finish{0, std::nullopt});
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
    CHECK(coordinator.receive(1, gone(0, false), kStart).empty());
    CHECK(coordinator.receive(2, gone(0, false), kStart).empty());
    auto finish = of_type<Finish>(coordinator.receive(3, gone(0, true), kStart));
    REQUIRE(finish.size() == 3);
    CHECK(finish[0].exit_code == 7);
    CHECK(finish[0].cause.value().rank == 3);
}

TEST_CASE("what is found out about the first failure is added to it, and nothing else is") {
    Coordinator coordinator = make(2);
    join_all(coordinator, {2, 2});
    coordinator.receive(2, failed_with(7, 3), kStart);
    WorkersGone victim = gone(0, false), culprit = gone(0, false);
    victim.failure = failed_with(9, 0).failure;
    culprit.failure = failed_with(7, 3).failure;
    culprit.failure->error_message = "ValueError";
    culprit.failure->last_lines = {"Traceback"};
    coordinator.receive(1, victim, kStart);
    auto finish = of_type<Finish>(coordinator.receive(2, culprit, kStart));
    REQUIRE(finish.size() == 2);
    CHECK(finish[0].cause.value().rank == 3);
    CHECK(finish[0].cause.value().host == "gpu1");
    CHECK(finish[0].cause.value().error_message == "ValueError");
    CHECK(finish[0].cause.value().last_lines == std::vector<std::string>{"Traceback"});
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
    auto finish = of_type<Finish>(coordinator.receive(3, gone(0, false), kStart));
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
        coordinator.receive(1, gone(0, true), kStart);
        auto finish = of_type<Finish>(coordinator.receive(2, gone(0, in_order), kStart));
        REQUIRE(finish.size() == 2);
        CHECK(finish[0].exit_code == (in_order ? kExitPreempted : kExitSignalBase + 15));
    }
}

TEST_CASE("a failure with restarts left begins the next round when every node's workers are gone") {
    Coordinator coordinator = make_restarting(2, {.max_restarts = 2});
    join_all(coordinator, {1, 2});
    CHECK(coordinator.round() == 0);
    coordinator.receive(1, failed_with(7, 0), kStart + 1s);
    CHECK(coordinator.receive(1, gone(0, false), kStart + 1s).empty());
    auto out = coordinator.receive(2, gone(0, false), kStart + 2s);
    REQUIRE(of_type<Restarting>(out).size() == 2);
    CHECK(of_type<Restarting>(out)[0].restart == 1);
    CHECK(of_type<Restarting>(out)[0].max_restarts == 2);
    auto ready = of_type<RoundReady>(out);
    REQUIRE(ready.size() == 2);
    CHECK(coordinator.round() == 1);
    for (const RoundReady& round : ready) {
        CHECK(round.round == 1);
        CHECK(round.restart_count == 1);
        CHECK(round.max_restarts == 2);
        CHECK(round.restart_reason == "rank 0 on node 0 (gpu0): exit code 7");
        CHECK(round.job_id == "job");
        CHECK(round.start_unix_s == 1234);
    }
    // What still comes from the first round is no news.
    CHECK(coordinator.receive(2, failed_with(9, 1), kStart + 2s).empty());
    CHECK(coordinator.receive(2, WorkersSucceeded{0}, kStart + 2s).empty());
    coordinator.receive(1, WorkersSucceeded{1}, kStart + 3s);
    auto finish = of_type<Finish>(coordinator.receive(2, WorkersSucceeded{1}, kStart + 3s));
    REQUIRE(finish.size() == 2);
    CHECK_FALSE(finish[0].cause);
    CHECK(finish[0].exit_code == 0);
    REQUIRE(finish[0].restarts.size() == 1);
    CHECK(finish[0].restarts[0].round == 0);
}

TEST_CASE("restarts are counted once for the job, whichever node fails") {
    Coordinator coordinator = make_restarting(2, {.max_restarts = 3, .min_uptime = 0ms, .same_failure = 0});
    join_all(coordinator, {1, 1});
    for (int round = 0; round < 3; ++round) {
        const std::uint64_t failing = static_cast<std::uint64_t>(round % 2) + 1;
        WorkerFailed failed = failed_with(7, round % 2);
        failed.round = round;
        coordinator.receive(failing, failed, kStart);
        coordinator.receive(1, gone(round, false), kStart);
        REQUIRE(of_type<RoundReady>(coordinator.receive(2, gone(round, false), kStart)).size() == 2);
    }
    WorkerFailed last = failed_with(8, 0);
    last.round = 3;
    coordinator.receive(1, last, kStart);
    coordinator.receive(1, gone(3, false), kStart);
    auto finish = of_type<Finish>(coordinator.receive(2, gone(3, false), kStart));
    REQUIRE(finish.size() == 2);
    CHECK(finish[0].exit_code == 8);
    CHECK(finish[0].restarts.size() == 3);
    CHECK_THAT(finish[0].message, Catch::Contains("all 3 of --max-restarts are used up"));
}

TEST_CASE("a pause between rounds is kept, and ends early when the job must") {
    auto pausing = [] {
        Coordinator coordinator = make_restarting(
            2, {.max_restarts = 1, .backoff_min = 10s, .backoff_max = 60s, .min_uptime = 0ms});
        join_all(coordinator, {1, 1});
        coordinator.receive(1, failed_with(7, 0), kStart);
        coordinator.receive(1, gone(0, false), kStart);
        auto out = coordinator.receive(2, gone(0, false), kStart);
        CHECK(of_type<Restarting>(out).size() == 2);
        CHECK(of_type<RoundReady>(out).empty());
        return coordinator;
    };
    Coordinator waits = pausing();
    REQUIRE(waits.next_deadline());
    CHECK(*waits.next_deadline() >= kStart + 5s);
    CHECK(*waits.next_deadline() <= kStart + 10s);
    CHECK(waits.tick(kStart + 1s).empty());
    CHECK(of_type<RoundReady>(waits.tick(*waits.next_deadline())).size() == 2);

    Coordinator signalled = pausing();
    auto finish = of_type<Finish>(signalled.receive(2, AgentSignalled{0, 15}, kStart + 1s));
    REQUIRE(finish.size() == 2);
    CHECK(finish[0].exit_code == kExitSignalBase + 15);
}

TEST_CASE("no restart once the user wants the job to end") {
    Coordinator coordinator = make_restarting(2, {.max_restarts = 5});
    join_all(coordinator, {1, 1});
    coordinator.receive(1, failed_with(7, 0), kStart);
    coordinator.receive(1, gone(0, false), kStart);
    coordinator.receive(2, AgentSignalled{0, 15}, kStart);
    const auto finish = of_type<Finish>(coordinator.receive(2, gone(0, false), kStart));
    REQUIRE(finish.size() == 2);
    CHECK(finish[0].exit_code == 7);
}

TEST_CASE("where nobody has sent a signal, the reason goes to all nodes") {
    Coordinator coordinator = make(2);
    join_all(coordinator, {1, 1});
    const auto stops = of_type<Stop>(coordinator.receive(1, AgentSignalled{0, 15, "time is over"}, kStart));
    REQUIRE(stops.size() == 2);
    CHECK(stops[1].cause.kind == Failure::Kind::signalled);
    CHECK(stops[1].cause.signal == 15);
    CHECK(stops[1].cause.message == "time is over");
}

TEST_CASE("a notice goes to every agent once, while the round it was meant for runs") {
    Coordinator coordinator = make(3);
    join_all(coordinator, {1, 1, 1});
    auto notices = of_type<NoticeSignal>(coordinator.receive(2, NoticeSignal{0, 10}, kStart));
    REQUIRE(notices.size() == 3);
    CHECK(notices[0].signal == 10);
    CHECK(coordinator.receive(2, NoticeSignal{1, 10}, kStart).empty());
    coordinator.receive(1, failed_with(1, 0), kStart);
    CHECK(coordinator.receive(2, NoticeSignal{0, 10}, kStart).empty());
}

TEST_CASE("a notice to requeue makes the end of its round one, unless a worker fails") {
    for (const bool fails : {false, true}) {
        Coordinator coordinator = make(2);
        join_all(coordinator, {1, 1});
        REQUIRE(of_type<NoticeSignal>(coordinator.receive(2, NoticeSignal{0, 10, true}, kStart)).size() == 2);
        coordinator.receive(2, NoticeSignal{0, 12}, kStart);
        coordinator.receive(1, WorkersSucceeded{0}, kStart);
        auto out = coordinator.receive(
            2, fails ? ControlMessage(failed_with(3, 1)) : ControlMessage(WorkersSucceeded{0}), kStart);
        if (fails) {
            coordinator.receive(1, gone(0, true), kStart);
            out = coordinator.receive(2, gone(0, false), kStart);
        }
        const auto finish = of_type<Finish>(out);
        REQUIRE(finish.size() == 2);
        CHECK(finish[0].exit_code == (fails ? 3 : kExitPreempted));
        CHECK(finish[0].cause.has_value() == fails);
    }
}

TEST_CASE(
    "the end of the job sums up how every worker ended, worst first, and tells all of it to who asked") {
    Coordinator coordinator = make(2);
    Hello curious = hello(0, 2, 3);
    curious.wants_rank_ends = true;
    coordinator.receive(1, curious, kStart);
    coordinator.receive(2, hello(1, 2, 300), kStart);
    coordinator.receive(2, failed_with(7, 3), kStart);
    auto end = [](int rank, RankEnd::Manner manner) {
        return RankEnd{.rank = rank, .exit_code = 1, .manner = manner};
    };
    using Manner = RankEnd::Manner;
    coordinator.receive(
        1, RankEnds{0, {end(0, Manner::stopped), end(1, Manner::failed), end(2, Manner::succeeded)}}, kStart);
    RankEnds first{0, {}}, second{0, {}};
    for (int rank = 3; rank < 303; ++rank) {
        (rank < 200 ? first : second).ends.push_back(end(rank, rank == 3 ? Manner::failed : Manner::stopped));
    }
    second.ends.push_back(end(302, Manner::failed));  // more than the node has workers: not believed
    coordinator.receive(2, first, kStart);
    coordinator.receive(2, second, kStart);
    coordinator.receive(1, gone(0, false), kStart);
    auto out = coordinator.receive(2, gone(0, false), kStart);
    auto finish = of_type<Finish>(out);
    REQUIRE(finish.size() == 2);
    CHECK(finish[0].failed_too == 1);
    CHECK(finish[0].stopped == 300);
    CHECK(finish[0].succeeded == 1);
    CHECK(finish[0].lost == 0);
    REQUIRE(finish[0].others.size() == kMaxOthersListed);
    CHECK(finish[0].others[0].rank == 1);
    CHECK(finish[0].others[1].rank == 0);
    CHECK(finish[0].others[1].host == "gpu0");
    std::size_t told = 0;
    for (const auto& outgoing : out) {
        if (!outgoing.ends) continue;
        CHECK(outgoing.to == 1);
        CHECK(std::holds_alternative<Finish>(outgoing.message));
        for (const RankEnds& ends : *outgoing.ends) told += ends.ends.size();
    }
    CHECK(told == 303);
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

TEST_CASE(
    "a silent node is lost after the limit, told why, and named to the others; the host's own agent is not "
    "asked") {
    CoordinatorOptions options{
        .version = "1", .job_id = "job", .nnodes = 3, .heartbeat = 6s, .own_agent = hello(0, 3)};
    Coordinator coordinator(std::move(options), kStart);
    for (int rank = 0; rank < 3; ++rank) {
        const auto out = coordinator.receive(static_cast<std::uint64_t>(rank) + 1, hello(rank, 3), kStart);
        const auto welcome = of_type<Welcome>(out);
        CHECK(welcome == (rank == 0 ? std::vector<Welcome>{} : std::vector<Welcome>{{6000}}));
    }
    for (const std::uint64_t agent : {2, 3}) coordinator.receive(agent, Heartbeat{}, kStart);  // workers run
    std::vector<Stop> stops;
    TimePoint now = kStart;
    while (stops.empty() && now < kStart + 1min) {
        now = coordinator.next_deadline().value();
        const auto out = coordinator.tick(now);
        for (const auto& outgoing : out) {
            const auto* question = std::get_if<Heartbeat>(&outgoing.message);
            if (question == nullptr) continue;
            CHECK(outgoing.to != 1);
            if (outgoing.to == 2) CHECK(coordinator.receive(2, Heartbeat{question->number}, now).empty());
        }
        stops = of_type<Stop>(out);
        if (stops.empty()) continue;
        CHECK(now == kStart + 8s);
        const auto given_up = of_type<GivenUp>(out);
        REQUIRE(given_up.size() == 1);
        CHECK(given_up[0].reason == "no heartbeat for 6 s");
    }
    REQUIRE(stops.size() == 2);
    CHECK(stops[0].cause.kind == Failure::Kind::node_lost);
    CHECK(loss_text(stops[0].cause) == "node 2 (gpu2) lost: no heartbeat for 6 s");
    CHECK(coordinator.closed(3, now).empty());
    coordinator.receive(1, gone(0, false), now);
    const auto finish = of_type<Finish>(coordinator.receive(2, gone(0, false), now));
    REQUIRE(finish.size() == 2);
    CHECK(finish[0].exit_code == kExitUnavailable);
    // It is over: nobody is asked or lost any more.
    CHECK_FALSE(coordinator.next_deadline());
    CHECK(coordinator.tick(now + 1h).empty());
}

TEST_CASE("an agent has time to start its workers, and is asked when it has done so") {
    CoordinatorOptions options{
        .version = "1", .job_id = "job", .nnodes = 2, .heartbeat = 6s, .own_agent = hello(0, 2)};
    Coordinator coordinator(std::move(options), kStart);
    join_all(coordinator, {1, 1});
    TimePoint now = kStart;
    while (now < kStart + Coordinator::kStartTimeout - 10s) {
        now = coordinator.next_deadline().value();
        CHECK(coordinator.tick(now).empty());
    }
    CHECK(of_type<Heartbeat>(coordinator.receive(2, Heartbeat{}, now)).size() == 1);
    std::vector<Stop> stops;
    const TimePoint started = now;
    while (stops.empty()) {
        now = coordinator.next_deadline().value();
        stops = of_type<Stop>(coordinator.tick(now));
    }
    CHECK(now == started + 8s);
}

TEST_CASE("a suspended agent is answered; with the host's own all others hear of it") {
    CoordinatorOptions options{
        .version = "1", .job_id = "job", .nnodes = 3, .heartbeat = 6s, .own_agent = hello(0, 3)};
    Coordinator coordinator(std::move(options), kStart);
    join_all(coordinator, {1, 1, 1});
    const auto one = coordinator.receive(2, Suspended{}, kStart);
    REQUIRE(of_type<Suspended>(one).size() == 1);
    CHECK(one.back().to == 2);
    const auto all = coordinator.receive(1, Suspended{}, kStart);
    REQUIRE(of_type<Suspended>(all).size() == 3);
    CHECK(all.back().to == 1);
}

TEST_CASE("who was told that the host's own agent is suspended is asked nothing before it stands still") {
    // When node 1 is asked, if its agent does not suspend.
    std::optional<TimePoint> asked;
    for (const bool suspends : {false, true}) {
        CoordinatorOptions options{
            .version = "1", .job_id = "job", .nnodes = 2, .heartbeat = 6s, .own_agent = hello(0, 2)};
        Coordinator coordinator(std::move(options), kStart);
        join_all(coordinator, {1, 1});
        coordinator.receive(2, Heartbeat{}, kStart);
        while (!suspends && !asked) {
            const TimePoint due = coordinator.next_deadline().value();
            if (!of_type<Heartbeat>(coordinator.tick(due)).empty()) asked = due;
        }
        if (!suspends) continue;
        while (coordinator.next_deadline().value() < *asked - 1ms)
            coordinator.tick(coordinator.next_deadline().value());
        coordinator.receive(1, Suspended{}, *asked - 1ms);
        CHECK(of_type<Heartbeat>(coordinator.tick(*asked)).empty());
    }
    // Nor where it says only then that it has begun the round.
    for (const bool suspends : {false, true}) {
        CoordinatorOptions options{
            .version = "1", .job_id = "job", .nnodes = 2, .heartbeat = 6s, .own_agent = hello(0, 2)};
        Coordinator coordinator(std::move(options), kStart);
        join_all(coordinator, {1, 1});
        if (suspends) coordinator.receive(1, Suspended{}, kStart);
        CHECK(of_type<Heartbeat>(coordinator.receive(2, Heartbeat{}, kStart)).empty() == suspends);
    }
}

TEST_CASE("what an agent says behind the word that it is suspended does not take that back") {
    CoordinatorOptions options{
        .version = "1", .job_id = "job", .nnodes = 2, .heartbeat = 6s, .own_agent = hello(0, 2)};
    Coordinator coordinator(std::move(options), kStart);
    join_all(coordinator, {2, 2});
    TimePoint now = kStart;
    const auto asked = [&](std::uint64_t from, const ControlMessage& message) {
        return of_type<Heartbeat>(coordinator.receive(from, message, now)).size();
    };
    // With the host's own agent this coordinator stands still: then it asks nobody.
    coordinator.receive(1, Suspended{}, now);
    coordinator.receive(1, RankSucceeded{0, 0}, now);
    CHECK(asked(2, Heartbeat{}) == 0);
    coordinator.receive(1, Heartbeat{}, now);
    coordinator.receive(2, Suspended{}, now);
    CHECK(asked(2, RankSucceeded{0, 2}) == 0);
    while (now < kStart + 1h) {
        now = coordinator.next_deadline().value();
        CHECK(coordinator.tick(now).empty());
    }
    CHECK(asked(2, Heartbeat{}) == 1);
}

}  // namespace ddprun
