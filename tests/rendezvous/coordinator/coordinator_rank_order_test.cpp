// Nodes whose ranks do not go by their numbers.
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

namespace {

Hello ordered(int node_rank, int pid, const char* order) {
    Hello said = hello(node_rank, 3);
    said.pid = pid;
    said.local_world_size = 2;
    said.rank_order = order;
    return said;
}

// The first ranks of those who are told that a round begins, by their connections.
std::map<std::uint64_t, int> base_ranks(const Coordinator::Outbox& out) {
    std::map<std::uint64_t, int> ranks;
    for (const auto& outgoing : out) {
        const auto* one = std::get_if<RoundReady>(&outgoing.message);
        if (one == nullptr) continue;
        ranks[outgoing.to] = one->base_rank;
        CHECK(one->base_rank == 2 * one->group_rank);
        // Node 0 has said the first of all orders in no test here.
        CHECK(one->coordinator_rank > 0);
    }
    return ranks;
}

}  // namespace

TEST_CASE("nodes have their ranks in the order that they say, in every round, whoever hosts") {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 3};
    options.restarts.max_restarts = 1;
    options.own_agent = ordered(0, 1, "s2.n1");
    Coordinator coordinator(options, kStart);
    coordinator.receive(1, *options.own_agent, kStart);
    coordinator.receive(2, ordered(1, 2, "s10.n2"), kStart);
    CHECK(base_ranks(coordinator.receive(3, ordered(2, 3, "s1.n3"), kStart)) ==
          std::map<std::uint64_t, int>{{3, 0}, {1, 2}, {2, 4}});

    // Who comes in place of a lost one has an order of his own.
    coordinator.closed(2, kStart);
    for (const std::uint64_t one : {1, 3}) coordinator.receive(one, WorkersGone{}, kStart);
    Coordinator::Outbox out = coordinator.receive(4, ordered(1, 4, "s0.n4"), kStart);
    auto now = kStart;
    for (int i = 0; i < 100 && base_ranks(out).empty(); ++i) {
        now += std::chrono::seconds(1);
        out = coordinator.tick(now);
    }
    CHECK(base_ranks(out) == std::map<std::uint64_t, int>{{4, 0}, {3, 2}, {1, 4}});
}

TEST_CASE("who says nothing of his order has his ranks behind the others") {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 3};
    options.own_agent = ordered(0, 1, "");
    Coordinator coordinator(options, kStart);
    coordinator.receive(1, *options.own_agent, kStart);
    coordinator.receive(2, ordered(1, 2, ""), kStart);
    CHECK(base_ranks(coordinator.receive(3, ordered(2, 3, "7"), kStart)) ==
          std::map<std::uint64_t, int>{{3, 0}, {1, 2}, {2, 4}});
}

}  // namespace ddprun
