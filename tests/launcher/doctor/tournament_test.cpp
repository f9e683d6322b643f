#include "launcher/doctor/tournament.hpp"

#include <set>
#include <utility>

#include "launcher/doctor/node_exchange.hpp"
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
                REQUIRE(*partner >= 0);
                REQUIRE(*partner < nodes);
                REQUIRE(*partner != node);
                // Both know of it, so each one has one partner at most.
                REQUIRE(partner_of(*partner, round, nodes) == node);
                if (node < *partner) REQUIRE(met.emplace(node, *partner).second);
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

TEST_CASE("a tournament of 64 nodes ends within ten seconds, also where nobody answers") {
    for (int nodes = 2; nodes <= 64; ++nodes) {
        const MeetingLimits limits = limits_for(nodes);
        INFO(nodes << " nodes");
        CHECK(limits.round * rounds_of(nodes) <= kTournamentTime);
        CHECK(limits.handshake + 2 * (limits.transfer + limits.transfer / 2) <= limits.round);
        CHECK(limits.round >= kLeastRoundTime);
        CHECK(limits.round <= kMostRoundTime);
    }
    CHECK(kTournamentTime + kSecondLook < std::chrono::seconds(10));
    CHECK(limits_for(1024).round == kLeastRoundTime);
}

}  // namespace ddprun
