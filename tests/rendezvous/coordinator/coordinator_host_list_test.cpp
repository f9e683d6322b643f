// Nodes without numbers whose agents know a list of the job's hosts.
#include "rendezvous/control/control_text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;

namespace {

// Of agent `pid`, whose host is at this position of a list of so many.
Hello listed_at(int nnodes, const char* host, int pid, int position, int size) {
    Hello said = hello(kUnnumbered, nnodes);
    said.host = host;
    said.pid = pid;
    said.list_position = position;
    said.list_size = size;
    return said;
}

}  // namespace

TEST_CASE("nodes without numbers get them by the list of hosts, behind the one that hosts") {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 4};
    options.own_agent = listed_at(4, "b", 1, 2, 3);
    Coordinator coordinator(options, kStart);
    coordinator.receive(1, *options.own_agent, kStart);
    coordinator.receive(2, listed_at(4, "a", 2, 1, 3), kStart);
    coordinator.receive(3, listed_at(4, "A", 3, kUnlisted, 0), kStart);
    const auto out = coordinator.receive(4, listed_at(4, "c", 4, 0, 3), kStart);
    std::map<std::uint64_t, int> ranks;
    for (const auto& outgoing : out) {
        if (const auto* one = std::get_if<RoundReady>(&outgoing.message))
            ranks[outgoing.to] = one->group_rank;
    }
    CHECK(ranks == std::map<std::uint64_t, int>{{1, 0}, {4, 1}, {2, 2}, {3, 3}});
}

TEST_CASE("those who wait hear by name who is missing of the host's list") {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 4, .join_timeout = 60s};
    options.own_agent = listed_at(4, "gpu2", 1, 1, 4);
    options.hosts = {"gpu9", "gpu2", "gpu4", "gpu1"};
    Coordinator coordinator(options, kStart);
    coordinator.receive(1, *options.own_agent, kStart);
    CHECK(to_text(of_type<Waiting>(coordinator.tick(kStart + 3s)).at(0)) ==
          "joined 1/4, missing gpu9, gpu4, gpu1");
    coordinator.receive(2, listed_at(4, "gpu1.example", 2, 3, 4), kStart + 4s);
    CHECK(to_text(of_type<Waiting>(coordinator.tick(kStart + 8s)).at(0)) == "joined 2/4, missing gpu9, gpu4");
    coordinator.closed(2, kStart + 9s);
    CHECK(to_text(of_type<Waiting>(coordinator.tick(kStart + 12s)).at(0)) ==
          "joined 1/4, missing gpu9, gpu4, gpu1");
    // Of one that knows no list nobody can say which host it is.
    coordinator.receive(4, listed_at(4, "x", 4, kUnlisted, 0), kStart + 13s);
    for (auto at = 14s; at < 60s; ++at)
        coordinator.tick(kStart + at);  // who looks so seldom as from 13 to 60 stood still
    CHECK_THAT(of_type<Refused>(coordinator.tick(kStart + 60s)).at(0).reason,
               Catch::StartsWith("joined 2/4, missing 2 nodes after 60 s; there: "));
}

TEST_CASE("where nodes are numbered, those that are missing have a number and a name") {
    constexpr int kNodes = 12;
    const auto numbered = [](int number) {
        Hello said = hello(number, kNodes);
        said.host = "h" + std::to_string(number);
        said.pid = 1 + number;
        said.list_size = kNodes;
        return said;
    };
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = kNodes, .join_timeout = 60s};
    options.own_agent = numbered(0);
    for (int host = 0; host < kNodes; ++host) options.hosts.push_back("h" + std::to_string(host));
    const auto told = [&options, &numbered](int first) {
        Coordinator coordinator(options, kStart);
        coordinator.receive(1, *options.own_agent, kStart);
        for (int number = first; number < kNodes; ++number)
            coordinator.receive(static_cast<std::uint64_t>(number + 1), numbered(number), kStart);
        return to_text(of_type<Waiting>(coordinator.tick(kStart + 3s)).at(0));
    };
    CHECK(told(2) == "joined 11/12, missing node 1 (h1)");
    CHECK(
        told(11) ==
        "joined 2/12, missing node 1 (h1), node 2 (h2), node 3 (h3), node 4 (h4), node 5 (h5), node 6 (h6), "
        "node 7 (h7), node 8 (h8), node 9, node 10");
    options.hosts.pop_back();
    CHECK(told(2) == "joined 11/12, missing node 1");
}

TEST_CASE("of many missing hosts a few are named, and none once enough have come") {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 40};
    options.elasticity.min_nodes = 2;
    options.own_agent = listed_at(40, "h0", 1, 0, 12);
    options.own_agent->min_nodes = 2;
    for (int host = 0; host < 12; ++host) options.hosts.push_back("h" + std::to_string(host));
    Coordinator coordinator(options, kStart);
    coordinator.receive(1, *options.own_agent, kStart);
    CHECK(to_text(of_type<Waiting>(coordinator.tick(kStart + 3s)).at(0)) ==
          "joined 1, the job needs 2 to 40 nodes, missing h1, h2, h3, h4, h5, h6, h7, h8 and 3 more");
    Hello second = listed_at(40, "h1", 2, 1, 12);
    second.min_nodes = 2;
    coordinator.receive(2, second, kStart + 4s);
    const auto told = of_type<Waiting>(coordinator.tick(kStart + 8s));
    REQUIRE(told.size() == 2);
    CHECK(told[0].missing_hosts.empty());
    CHECK_THAT(to_text(told[0]), Catch::StartsWith("joined 2 of at most 40 nodes; others may still come"));
}

}  // namespace ddprun
