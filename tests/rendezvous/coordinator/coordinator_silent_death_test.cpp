// Agents that die without a word: while nodes gather, and when others may go on without those who are left.
#include <algorithm>
#include <set>

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

// Agents by their connection; those in `silent` say nothing more, and their connections stay.
struct Gathering {
    explicit Gathering(int nodes, bool numbered) : nnodes(nodes), is_numbered(numbered) {
        CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = nodes, .heartbeat = 6s};
        options.own_agent = agent(1, 0);
        coordinator.emplace(std::move(options), kStart);
        come(1, 0);
    }
    Hello agent(int connection, int number) const {
        Hello one = hello(is_numbered ? number : kUnnumbered, nnodes);
        one.host = "gpu" + std::to_string(number);
        one.pid = 100 + connection;
        return one;
    }
    void come(int connection, int number) {
        take(coordinator->receive(static_cast<std::uint64_t>(connection), agent(connection, number), now));
    }
    void take(const Coordinator::Outbox& outbox) {
        for (const auto& [to, message, closes, ends] : outbox) {
            if (std::holds_alternative<RoundReady>(message)) begun.insert(to);
            if (const auto* refusal = std::get_if<Refused>(&message)) refused.emplace(to, refusal->exit_code);
            if (std::holds_alternative<Parked>(message)) parked.insert(to);
            const auto* question = std::get_if<Heartbeat>(&message);
            if (question != nullptr && !silent.contains(to) && !refused.contains(to))
                take(coordinator->receive(to, Heartbeat{.number = question->number}, now));
        }
    }
    void pass(std::chrono::milliseconds time) {
        const TimePoint end = now + time;
        for (auto next = coordinator->next_deadline(); next && *next <= end;
             next = coordinator->next_deadline()) {
            now = *next;
            take(coordinator->tick(now));
        }
        now = end;
    }

    int nnodes;
    bool is_numbered;
    TimePoint now = kStart;
    std::optional<Coordinator> coordinator;
    std::set<std::uint64_t> silent, begun, parked;
    std::map<std::uint64_t, int> refused;  // with which code
};

using Connections = std::set<std::uint64_t>;

}  // namespace

TEST_CASE(
    "a round does not begin with an agent that has died without a word; who comes in its place is taken in") {
    const bool numbered = GENERATE(true, false);
    Gathering job(3, numbered);
    job.come(2, 1);
    job.pass(3s);
    job.silent.insert(2);
    job.pass(500ms);
    // Back within a second, as another process of the same host.
    job.come(3, 1);
    CHECK(job.refused.empty());
    job.come(4, 2);
    CHECK(job.begun.empty());
    job.pass(9s);
    CHECK(job.refused.empty());
    CHECK(job.begun == Connections{1, 3, 4});
}

TEST_CASE("whoever comes for the place of an agent that is there is refused at once") {
    Gathering job(3, true);
    job.come(2, 1);
    job.pass(3s);
    job.come(3, 1);
    CHECK(job.refused == std::map<std::uint64_t, int>{{3, kExitNotAdmitted}});
    job.come(4, 2);
    CHECK(job.begun == Connections{1, 2, 4});
}

TEST_CASE("one that waits for a place which nobody leaves hears that the job has begun without it") {
    Gathering job(2, false);
    job.pass(1s);
    job.silent.insert(2);
    job.come(2, 1);
    job.silent.clear();
    CHECK(job.begun == Connections{1, 2});  // it was seen just now
    job.come(3, 1);
    CHECK(job.refused == std::map<std::uint64_t, int>{{3, kExitUnavailable}});
}

TEST_CASE("a host that may be outdone has the workers of those who are left ended as lost ones are") {
    constexpr int kNodes = 4;
    CoordinatorOptions options{.version = "1", .run_id = "none", .nnodes = kNodes, .heartbeat = 6s};
    options.elasticity.min_nodes = 1;
    options.failover = true;
    const auto member = [](int rank) {
        Hello one = hello(rank, kNodes);
        one.min_nodes = 1;
        one.grace_ms = 5'000;
        return one;
    };
    options.own_agent = member(0);
    Coordinator coordinator(options, kStart);
    for (int rank = 0; rank < kNodes; ++rank)
        coordinator.receive(static_cast<std::uint64_t>(rank) + 1, member(rank), kStart);
    const bool is_ending = GENERATE(true, false);  // already, by its grace
    if (is_ending) {
        const auto stops = of_type<Stop>(coordinator.receive(1, failed_with(3, 0), kStart));
        REQUIRE(stops.size() == kNodes);
        CHECK_FALSE(stops[0].is_awaited);
    }
    // Half of them, with the host, go on by themselves.
    auto out = coordinator.closed(4, kStart + 1s, false);
    out = coordinator.closed(3, kStart + 2s, false);
    CHECK(std::none_of(out.begin(), out.end(), [](const auto& one) {
        const auto* stop = std::get_if<Stop>(&one.message);
        return stop != nullptr && stop->is_awaited;
    }));
    out = coordinator.closed(2, kStart + 3s, false);
    const auto stops = of_type<Stop>(out);
    REQUIRE(stops.size() == 1);
    CHECK(stops[0].is_awaited);
    CHECK(coordinator.lease_end() == kStart + 3s + 5s - Aftermath::kGuardianTime);
}

TEST_CASE("the others wait for a lost node's own grace, and for its lease where only its connection broke") {
    const HeartbeatTerms terms{6s};
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 2, .heartbeat = 6s};
    options.elasticity = {.min_nodes = 1, .last_call = 1s};
    const auto from = [](int agent, std::int64_t grace_ms) {
        Hello one = hello(kUnnumbered, 2);
        one.min_nodes = 1;
        one.pid = agent;
        one.grace_ms = grace_ms;
        return one;
    };
    const auto next_round = [&](std::int64_t grace_ms, auto lose, std::chrono::milliseconds late = 0ms) {
        options.own_agent = from(1, 30'000);
        Coordinator coordinator(options, kStart);
        coordinator.receive(1, from(1, 30'000), kStart);
        coordinator.receive(2, from(2, grace_ms), kStart);
        coordinator.receive(2, Heartbeat{}, kStart);
        lose(coordinator);
        coordinator.receive(1, gone(0, false), kStart);
        for (Coordinator::Outbox out;;) {
            const TimePoint now = coordinator.next_deadline().value() + late;
            REQUIRE(now < kStart + 100s);
            out = coordinator.tick(now);
            if (!of_type<Stop>(out).empty()) out = coordinator.receive(1, gone(0, false), now);
            if (!of_type<RoundReady>(out).empty()) return now - kStart;
        }
    };
    const auto falls_silent = [](Coordinator&) {};
    const auto breaks = [](Coordinator& one) { one.closed(2, kStart, false); };
    const auto gives_up = [](Coordinator& one) {
        one.receive(2, LeaseOver{}, kStart);
        one.closed(2, kStart, true);
    };
    const auto dies = [](Coordinator& one) { one.closed(2, kStart, true); };
    CHECK(next_round(5'000, falls_silent) == terms.patience() + 5s);
    // A timer is always a little late.
    CHECK(next_round(5'000, falls_silent, 3ms) <= terms.patience() + 5s + 200ms);
    CHECK(next_round(5'000, breaks) == terms.patience() + 5s);
    CHECK(next_round(5'000, gives_up) == 5s);
    CHECK(next_round(5'000, dies) == Coordinator::kKillTime);
    // However short its grace is, the kernel needs a moment.
    CHECK(next_round(0, gives_up) == Coordinator::kKillTime);
}

}  // namespace ddprun
