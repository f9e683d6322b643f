// Coordinators that move, driven by random events from printed seeds.
#include <algorithm>

#include "tests/rendezvous/link/takeover_world.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE(
    "whoever dies, freezes or is cut off, with clocks that jump: one round at a time, and an end for "
    "everybody") {
    int takeovers = 0, most_rounds = 0;
    for (unsigned seed = 1; seed <= 500; ++seed) {
        INFO("seed " << seed);
        TakeoverWorld world(seed);
        constexpr int kBusySteps = 8'000, kSteps = 60'000;
        for (int i = 0; i < kSteps && !world.over(); ++i) {
            if (i == kBusySteps) world.end_faults();
            world.step();
        }
        INFO(world.state());
        REQUIRE(world.over());
        takeovers += world.takeovers();
        most_rounds = std::max(most_rounds, world.rounds());
    }
    // Else this has shown little.
    CHECK(takeovers > 100);
    CHECK(most_rounds > 5);
}

}  // namespace ddprun
