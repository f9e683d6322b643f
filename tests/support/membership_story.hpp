// One story of a job whose nodes come and go: agents, and what they hear of the coordinator.
#pragma once

#include <chrono>
#include <initializer_list>
#include <map>
#include <optional>

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

inline constexpr std::chrono::milliseconds kGrace = std::chrono::seconds(20);
inline constexpr std::chrono::milliseconds kLastCall = std::chrono::seconds(7);

// Agents by the number of their connection: 1 is the host, which has no number of its own, like all.
struct Story {
    explicit Story(int least, int all, Elasticity elasticity = {}, RestartOptions restarts = {},
                   bool asks = false)
        : most(all) {
        elasticity.last_call = kLastCall;
        if (least < all) elasticity.min_nodes = least;
        min_nodes = elasticity.min_nodes.value_or(0);
        CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = all, .elasticity = elasticity};
        options.join_timeout = std::chrono::seconds(100);
        options.restarts = restarts;
        options.asks_about_failures = asks;
        options.own_agent = hello_from(1);
        coordinator.emplace(std::move(options), kStart);
    }

    Hello hello_from(int agent, int workers = 1) const {
        Hello one = hello(kUnnumbered, most, workers);
        one.min_nodes = min_nodes;
        one.host = "gpu" + std::to_string(agent);
        one.pid = 100 + agent;
        one.grace_ms = static_cast<int>(kGrace.count());
        return one;
    }

    void take(Coordinator::Outbox outbox) {
        last = std::move(outbox);
        for (const auto& outgoing : last) {
            if (const auto* ready = std::get_if<RoundReady>(&outgoing.message)) rounds[outgoing.to] = *ready;
            if (const auto* finish = std::get_if<Finish>(&outgoing.message)) finished[outgoing.to] = *finish;
        }
    }
    void come(int agent, int workers = 1) {
        take(coordinator->receive(static_cast<std::uint64_t>(agent), hello_from(agent, workers), now));
    }
    void say(int agent, const ControlMessage& message) {
        take(coordinator->receive(static_cast<std::uint64_t>(agent), message, now));
    }
    void lose(int agent, bool closed_there = true) {
        take(coordinator->closed(static_cast<std::uint64_t>(agent), now, closed_there));
    }
    void stopped(std::initializer_list<int> agents, bool all_zero = false) {
        for (const int agent : agents) say(agent, gone(coordinator->round(), all_zero));
    }
    void fails(int agent) {
        const RoundReady& place = rounds.at(static_cast<std::uint64_t>(agent));
        WorkerFailed failed = failed_with(7, place.base_rank);
        failed.round = place.round;
        say(agent, failed);
    }
    // Until something is due, and then that.
    void wait() {
        const auto deadline = coordinator->next_deadline();
        REQUIRE(deadline);
        now = *deadline;
        take(coordinator->tick(now));
    }
    bool has_begun() const { return !of_type<RoundReady>(last).empty(); }
    // The group rank of each, in the round that has just begun.
    std::map<int, int> order() const {
        std::map<int, int> ranks;
        for (const auto& outgoing : last) {
            if (const auto* ready = std::get_if<RoundReady>(&outgoing.message))
                ranks[static_cast<int>(outgoing.to)] = ready->group_rank;
        }
        return ranks;
    }

    int most;
    int min_nodes = 0;
    TimePoint now = kStart;
    std::optional<Coordinator> coordinator;
    Coordinator::Outbox last;
    std::map<std::uint64_t, RoundReady> rounds;
    std::map<std::uint64_t, Finish> finished;
};

using Order = std::map<int, int>;

}  // namespace ddprun
