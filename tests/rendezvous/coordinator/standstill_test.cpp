// What is given again to those who are awaited, where the coordinator, and perhaps the whole machine, stood
// still (SIGSTOP, a frozen container, a suspended laptop): time is the tests'.
#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/control/heartbeat.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

constexpr auto kStill = 1h;

// Looks at the clock whenever it is due, and answers for all agents, until the coordinator says that; returns
// when.
template <class Message>
TimePoint time_of_first(Coordinator& coordinator) {
    for (TimePoint now = kStart; now < kStart + 24h;) {
        now = coordinator.next_deadline().value();
        const auto out = coordinator.tick(now);
        if (!of_type<Message>(out).empty()) return now;
        for (const auto& outgoing : out) {
            if (const auto* question = std::get_if<Heartbeat>(&outgoing.message))
                coordinator.receive(outgoing.to, *question, now);
        }
    }
    FAIL("nothing is said in a day");
    return {};
}

Coordinator make_punctual(int nnodes, std::chrono::milliseconds heartbeat) {
    return Coordinator({.version = "1",
                        .run_id = "none",
                        .job_id = "job",
                        .nnodes = nnodes,
                        .join_timeout = 60s,
                        .heartbeat = heartbeat,
                        .exit_wait = ExitWaitOptions{30s, true, "30:kill"}},
                       kStart);
}

}  // namespace

TEST_CASE("standstill: who has not joined yet has the whole time again, for less than the limit none of it") {
    const auto [late, end] = GENERATE(table<std::chrono::seconds, std::chrono::seconds>(
        {{0s, 60s}, {5s, 60s}, {std::chrono::seconds(kStill), kStill + 60s}}));
    Coordinator coordinator = make_punctual(2, 6s);
    coordinator.receive(1, hello(0, 2), kStart);
    const TimePoint goes_on = coordinator.next_deadline().value() + late;
    const auto out = coordinator.tick(goes_on);
    CHECK(of_type<Refused>(out).empty());
    for (const Heartbeat& question : of_type<Heartbeat>(out)) coordinator.receive(1, question, goes_on);
    const TimePoint ended = time_of_first<Refused>(coordinator);
    CHECK(ended == (late > 6s ? goes_on + 60s : kStart + end));
}

TEST_CASE("standstill: --exit-wait begins anew, also on one node, which has no heartbeats") {
    const auto [nodes, heartbeat] = GENERATE(table<int, std::chrono::seconds>({{1, 0s}, {2, 0s}, {2, 6s}}));
    Coordinator coordinator = make_punctual(nodes, heartbeat);
    join_all(coordinator, std::vector<int>(static_cast<std::size_t>(nodes), 2));
    for (int node = 1; node <= nodes; ++node)
        coordinator.receive(static_cast<std::uint64_t>(node), Heartbeat{}, kStart);
    coordinator.receive(1, RankSucceeded{0, 0}, kStart);
    const TimePoint goes_on = coordinator.next_deadline().value() + kStill;
    const auto out = coordinator.tick(goes_on);
    CHECK(of_type<WhoRuns>(out).empty());
    for (const auto& outgoing : out) {
        if (const auto* question = std::get_if<Heartbeat>(&outgoing.message))
            coordinator.receive(outgoing.to, *question, goes_on);
    }
    CHECK(time_of_first<WhoRuns>(coordinator) == goes_on + 30s);
}

TEST_CASE("standstill: a busy machine's lateness takes nothing from --exit-wait, and gives nothing") {
    Coordinator coordinator = make_punctual(1, 0s);
    join_all(coordinator, {2});
    coordinator.receive(1, RankSucceeded{0, 0}, kStart);
    CHECK(of_type<WhoRuns>(coordinator.tick(kStart + 30s + Coordinator::kStandstill)).size() == 1);
}

TEST_CASE("standstill: agents that start their workers have the time for that again") {
    HeartbeatWatch watch(HeartbeatTerms{.limit = 6s});
    watch.add(1, kStart);
    watch.excuse(1, kStart + 90s);
    watch.look(kStart + kStill, kStill);
    // It is asked at once, once, and need not answer as long as it is excused.
    TimePoint now = kStart + kStill;
    std::vector<std::uint64_t> lost;
    while (lost.empty() && now < kStart + 2 * kStill) {
        lost = watch.tick(now).lost;
        if (lost.empty()) now = watch.next_deadline().value();
    }
    CHECK(now >= kStart + kStill + 90s);
}

TEST_CASE("standstill: a process has overslept by what a busy machine does not do") {
    CHECK(overslept(kStart, kStart - 1h) == 0s);
    CHECK(overslept(kStart, kStart) == 0s);
    CHECK(overslept(kStart, kStart + 1s) == 0s);
    CHECK(overslept(kStart, kStart + 1001ms) == 1001ms);
    CHECK(overslept(kStart, kStart + 1h) == 1h);
}

}  // namespace ddprun
