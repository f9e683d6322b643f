#include "launcher/doctor/node_report.hpp"

#include <set>
#include <utility>

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("every two nodes meet once, and no node meets two others at one time") {
    for (int nodes = 1; nodes <= 129; ++nodes) {
        INFO(nodes << " nodes");
        std::set<std::pair<int, int>> met;
        for (int round = 0; round < rounds_of(nodes); ++round) {
            for (int node = 0; node < nodes; ++node) {
                const auto partner = partner_of(node, round, nodes);
                if (!partner) continue;
                // Both know of it, so each one has one partner at most.
                const bool is_right = *partner >= 0 && *partner < nodes && *partner != node &&
                                      partner_of(*partner, round, nodes) == node &&
                                      (node > *partner || met.emplace(node, *partner).second);
                if (!is_right) FAIL("node " << node << " meets " << *partner << " in round " << round);
            }
        }
        REQUIRE(met.size() == static_cast<std::size_t>(nodes * (nodes - 1) / 2));
    }
}

TEST_CASE("a round is no longer than it must be") {
    CHECK(rounds_of(1) == 0);
    CHECK(rounds_of(2) == 1);
    CHECK(rounds_of(3) == 3);
    CHECK(rounds_of(64) == 63);
    CHECK_FALSE(partner_of(0, 0, 1));
}

TEST_CASE("a tournament of 64 nodes ends within ten seconds") {
    for (int nodes = 2; nodes <= 64; ++nodes) {
        INFO(nodes << " nodes");
        CHECK(round_time(nodes) * rounds_of(nodes) <= kTournamentTime);
        CHECK(round_time(nodes) >= kLeastRoundTime);
        CHECK(round_time(nodes) <= kMostRoundTime);
    }
    CHECK(kTournamentTime < std::chrono::seconds(10));
    CHECK(round_time(1024) == kLeastRoundTime);
}

}  // namespace ddprun
