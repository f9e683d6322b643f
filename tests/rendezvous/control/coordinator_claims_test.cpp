#include "rendezvous/control/coordinator_claims.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {
namespace {

// Node 1 of three, with two of seven workers.
RoundReady ready_of(int round) {
    RoundReady ready{.round = round, .job_id = "job", .group_rank = 1, .group_world_size = 3};
    ready.base_rank = 3;
    ready.world_size = 7;
    ready.role_base_rank = 1;
    ready.role_world_size = 5;
    return ready;
}

CoordinatorClaims claims_of_node_1() {
    Hello own = hello(1, 3, 2);
    own.wants_rank_ends = true;
    return CoordinatorClaims(own);
}

}  // namespace

TEST_CASE("an agent takes only ranks that a job of its size can have") {
    CoordinatorClaims fresh = claims_of_node_1();
    CHECK(fresh.accept(ready_of(0)));
    const auto with = [](auto change) {
        RoundReady ready = ready_of(0);
        change(ready);
        CoordinatorClaims claims = claims_of_node_1();
        return claims.accept(ready);
    };
    CHECK_FALSE(with([](RoundReady& r) { r.group_rank = 3; }));
    CHECK_FALSE(with([](RoundReady& r) { r.group_world_size = 4; }));
    CHECK_FALSE(with([](RoundReady& r) { r.coordinator_rank = 3; }));
    CHECK(with([](RoundReady& r) { r.base_rank = 5; }));
    CHECK_FALSE(with([](RoundReady& r) { r.base_rank = 6; }));
    CHECK_FALSE(with([](RoundReady& r) { r.world_size = 1; }));
    CHECK(with([](RoundReady& r) { r.world_size = 3 * kMaxWorkersPerNode; }));
    CHECK_FALSE(with([](RoundReady& r) { r.world_size = 3 * kMaxWorkersPerNode + 1; }));
    CHECK_FALSE(with([](RoundReady& r) { r.role_base_rank = 4; }));
    CHECK_FALSE(with([](RoundReady& r) { r.role_world_size = 8; }));
}

TEST_CASE("rounds of a job never go back") {
    CoordinatorClaims claims = claims_of_node_1();
    CHECK(claims.accept(ready_of(3)));
    CHECK_FALSE(claims.accept(ready_of(3)));
    CHECK_FALSE(claims.accept(ready_of(2)));
    CHECK(claims.accept(ready_of(5)));
    RoundReady of_another = ready_of(0);
    of_another.job_id = "another";
    CHECK(claims.accept(of_another));
}

TEST_CASE("an agent takes as many ends as there are ranks, and none that it has not asked for") {
    CoordinatorClaims claims = claims_of_node_1();
    REQUIRE(claims.accept(ready_of(0)));
    const RankEnds three{0, std::vector<RankEnd>(3)}, one{0, std::vector<RankEnd>(1)};
    CHECK(claims.accept(three));
    CHECK(claims.accept(three));
    CHECK(claims.accept(one));
    CHECK_FALSE(claims.accept(one));

    CoordinatorClaims next = claims_of_node_1();
    for (int round = 0; round < 3; ++round) {
        REQUIRE(next.accept(ready_of(round)));
        for (int i = 0; i < 7; ++i) CHECK(next.accept(RankEnds{round, std::vector<RankEnd>(1)}));
    }

    // Of another round: bounded, too.
    CoordinatorClaims other = claims_of_node_1();
    REQUIRE(other.accept(ready_of(0)));
    int taken = 0;
    while (taken < 1000 && other.accept(RankEnds{1, std::vector<RankEnd>(kMaxEndsInMessage)})) ++taken;
    CHECK(taken == 3 * kMaxWorkersPerNode / static_cast<int>(kMaxEndsInMessage));

    CoordinatorClaims incurious(hello(1, 3, 2));
    REQUIRE(incurious.accept(ready_of(0)));
    CHECK_FALSE(incurious.accept(one));
}

TEST_CASE("who waits hears of no more nodes than its job has") {
    const auto takes = [](const ControlMessage& message) {
        CoordinatorClaims claims = claims_of_node_1();
        return claims.accept(message);
    };
    CHECK(takes(Waiting{.joined = 1, .expected = 3, .missing = {0, 2}, .at_most = 3}));
    CHECK_FALSE(takes(Waiting{.joined = 1, .expected = 4, .missing = {}, .at_most = 3}));
    CHECK_FALSE(takes(Waiting{.joined = 1, .expected = 3, .missing = {}, .at_most = 4}));
    CHECK_FALSE(takes(Waiting{.joined = 1, .expected = 3, .missing = {3}, .at_most = 3}));
    CHECK(takes(MemberList{.size = 3}));
    CHECK_FALSE(takes(MemberList{.size = 4}));
}

}  // namespace ddprun
