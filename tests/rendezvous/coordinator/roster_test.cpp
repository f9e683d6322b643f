#include "rendezvous/coordinator/roster.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

SharedOptions options_of(int nnodes, std::optional<int> least = {}) {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = nnodes};
    options.elasticity.min_nodes = least;
    options.elasticity.last_call = 5s;
    return std::make_shared<const CoordinatorOptions>(options);
}

Hello unnumbered(int agent, int nnodes) {
    Hello one = hello(kUnnumbered, nnodes);
    one.host = "gpu" + std::to_string(agent);
    one.pid = 100 + agent;
    return one;
}

// Connections are the ranks and one.
Roster seated(SharedOptions options) {
    const int nnodes = options->nnodes;
    Roster roster(std::move(options), kStart);
    for (int rank = 0; rank < nnodes; ++rank)
        roster.admit(static_cast<std::uint64_t>(rank) + 1, hello(rank, nnodes));
    roster.end_gathering();
    roster.seat({});
    return roster;
}

JobNode waiting_node(std::uint64_t connection, const std::string& host) {
    JobNode node{.hello = hello(kUnnumbered, 3), .connection = connection};
    node.hello.host = host;
    return node;
}

}  // namespace

TEST_CASE("a roster is complete with all nodes, or after a last call with the least") {
    struct Case {
        std::optional<int> least;
        int come;
        bool is_complete, has_last_call;
    };
    for (const Case& one : std::vector<Case>{{{}, 2, false, false},
                                             {{}, 3, true, false},
                                             {2, 1, false, false},
                                             {2, 2, false, true},
                                             {2, 3, true, true}}) {
        Roster roster(options_of(3, one.least), kStart);
        bool is_complete = false;
        for (int rank = 0; rank < one.come; ++rank) {
            CHECK_FALSE(is_complete);
            roster.admit(static_cast<std::uint64_t>(rank) + 1, hello(rank, 3));
            is_complete = roster.gathers_all(kStart);
        }
        CHECK(is_complete == one.is_complete);
        CHECK((roster.due(kStart + 5s) == CoordinatorEvent::last_call_over) == one.has_last_call);
        CHECK_FALSE(roster.due(kStart + 4s));
        CHECK(roster.due(kStart + 900s) == CoordinatorEvent::join_timed_out);
    }
}

TEST_CASE("a roster finds a node by its connection, its name and its number") {
    Roster roster(options_of(3), kStart);
    roster.admit(7, hello(1, 3));
    REQUIRE(roster.find(7) != nullptr);
    CHECK(roster.find(7)->claim == 1);
    CHECK(roster.find(8) == nullptr);
    CHECK(roster.newcomer_before(hello(1, 3)) == roster.find(7));
    CHECK(roster.newcomer_before(hello(2, 3)) == nullptr);
    Hello other = hello(1, 3);
    other.pid = 999;
    CHECK(roster.reason_against(other));
    CHECK_FALSE(roster.reason_against(hello(1, 3)));
    other.host = "gpu1";
    CHECK_FALSE(roster.reason_against(other, true));
    roster.forget(*roster.find(7), kStart);
    CHECK(roster.nodes().empty());
    CHECK(roster.newcomer_before(hello(1, 3)) == nullptr);
}

TEST_CASE("node 0 hears of each refusal once, also of those before it came") {
    Roster roster(options_of(2), kStart);
    for (int attempt = 0; attempt < 2; ++attempt)
        CHECK(roster.refuse(9, hello(5, 2), {"why", 1}).size() == 1);
    const auto told = of_type<PeerRefused>(roster.admit(1, hello(0, 2)));
    REQUIRE(told.size() == 1);
    CHECK(told[0].reason == "why");
    CHECK(roster.refuse(9, hello(5, 2), {"why", 1}).size() == 1);
    const Messages out = roster.refuse(9, hello(5, 2), {"another reason", 1});
    REQUIRE(out.size() == 2);
    CHECK(out[0].close_after);
    CHECK(out[1].to == 1);
}

TEST_CASE("one seat is kept for the host's own agent") {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 2, .own_agent = unnumbered(0, 2)};
    Roster roster(std::make_shared<const CoordinatorOptions>(options), kStart);
    CHECK(roster.has_seat_for(unnumbered(1, 2)));
    roster.admit(2, unnumbered(1, 2));
    CHECK_FALSE(roster.has_seat_for(unnumbered(2, 2)));
    CHECK(roster.has_seat_for(unnumbered(0, 2)));
    roster.admit(1, unnumbered(0, 2));
    REQUIRE(roster.host() != nullptr);
    CHECK(roster.host()->connection == 1);
}

TEST_CASE("who stays keeps the order, and a newcomer takes the place of one that was lost") {
    Roster roster = seated(options_of(3));
    roster.lose(roster.nodes().at(1), Roster::Loss::closed, true);
    CHECK(roster.nodes().at(1).is_dead);
    CHECK(roster.find(2) == nullptr);
    CHECK(roster.free_seats() == 1);
    roster.seat({waiting_node(9, "new")});
    REQUIRE(roster.nodes().size() == 3);
    CHECK(roster.nodes().at(0).connection == 1);
    CHECK(roster.nodes().at(1).connection == 9);
    CHECK(roster.nodes().at(2).connection == 3);
    CHECK(roster.find(9)->hello.node_rank == 1);
    CHECK(roster.free_seats() == 0);
}

TEST_CASE("a status comes some time after the first node, and then not too often") {
    Roster roster(options_of(3), kStart);
    roster.admit(1, hello(0, 3));
    roster.plan_status(kStart, false);
    CHECK(roster.deadline() == kStart + Roster::kFirstStatusDelay);
    roster.plan_status(kStart + 1s, false);
    CHECK(roster.deadline() == kStart + Roster::kFirstStatusDelay);
    const Waiting waiting = roster.waiting(1, {});
    CHECK(waiting.missing == std::vector<int>{1, 2});
    CHECK(roster.tell_waiting(waiting, kStart + 3s).size() == 1);
    roster.plan_status(kStart + 3s, true);
    CHECK(roster.deadline() == kStart + 3s + Roster::kStatusPeriod);
    CHECK(roster.due(roster.deadline()) == CoordinatorEvent::status_due);
    roster.await(kStart + 3s);
    CHECK(roster.deadline() == kStart + 3s + 900s);
}

TEST_CASE("a roster that is taken over has the followers by their ranks, and the others as lost") {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 3};
    MemberList list{.size = 3};
    for (int rank = 0; rank < 3; ++rank)
        list.members.push_back({.group_rank = rank, .place = rank, .host = "gpu" + std::to_string(rank)});
    options.predecessor = list;
    Roster roster(std::make_shared<const CoordinatorOptions>(options), kStart);
    std::vector<int> keys;
    for (int rank = 1; rank < 3; ++rank) {
        Hello one = hello(rank, 3);
        one.following.emplace(Following{.last = list, .group_rank = rank});
        keys.push_back(roster.add_follower(static_cast<std::uint64_t>(rank) + 1, one).key);
    }
    const auto others = roster.take_over({{.rank = 2, .key = keys[1], .place = 2}}, list);
    CHECK(others == std::vector<std::uint64_t>{2});
    REQUIRE(roster.nodes().size() == 3);
    CHECK(roster.find(3)->hello.node_rank == 2);
    CHECK(roster.find(2) == nullptr);
    for (const int lost : {0, 1}) {
        CHECK_FALSE(roster.nodes().at(lost).connected);
        CHECK(roster.nodes().at(lost).run.ended);
    }
}

}  // namespace ddprun
