// Coordinators that move, driven by random events from printed seeds.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/rendezvous/link/takeover_world.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/sanitized.hpp"

namespace ddprun {

namespace {

// Other seeds than the first ones, for a long run by hand: DDPRUN_SEEDS=FIRST,COUNT.
std::pair<unsigned, unsigned> seeds_or(unsigned count) {
    const char* wanted = std::getenv("DDPRUN_SEEDS");
    unsigned first = 1;
    if (wanted != nullptr) REQUIRE(std::sscanf(wanted, "%u,%u", &first, &count) == 2);
    return {first, count};
}

void tell_stories(TakeoverWorld::Decider decider, int least_takeovers) {
    constexpr unsigned kStories = 500;
    int takeovers = 0, most_rounds = 0;
    const auto [first, count] = seeds_or(seed_count(kStories));
    for (unsigned seed = first; seed < first + count; ++seed) {
        INFO("seed " << seed);
        TakeoverWorld world(seed, decider);
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
    if (count < kStories) return;
    CHECK(takeovers > least_takeovers);
    CHECK(most_rounds > 5);
}

}  // namespace

TEST_CASE(
    "a job whose machines all stand still, and go on, goes on: with all of them, under the same "
    "coordinator") {
    constexpr unsigned kStories = 300;
    const auto decider = GENERATE(TakeoverWorld::Decider::majority, TakeoverWorld::Decider::etcd);
    const auto [first, count] = seeds_or(seed_count(kStories));
    for (unsigned seed = first; seed < first + count; ++seed) {
        INFO("seed " << seed);
        TakeoverWorld world(seed, decider);
        world.stay_calm();
        for (int pause = 0; pause < 6; ++pause) {
            // Now and then as the round begins.
            for (unsigned i = 0; i < (pause == 0 ? seed % 400 : 400) || world.is_between(); ++i) world.step();
            world.stand_still(std::chrono::seconds(9), true);
            while (world.stands_still()) world.step();
        }
        for (int i = 0; i < 2'000; ++i) world.step();
        INFO(world.state());
        CHECK(world.works());
        world.end_faults();
        for (int i = 0; i < 60'000 && !world.over(); ++i) world.step();
        REQUIRE(world.over());
        // Who comes after the last call, which may pass meanwhile, is let in by another round; that is no
        // restart.
        CHECK(world.restarts() == 0);
        CHECK(world.takeovers() == 0);
    }
}

TEST_CASE("whoever dies, freezes or is cut off, with clocks that jump: one round, and an end for everybody") {
    tell_stories(TakeoverWorld::Decider::majority, 100);
}

TEST_CASE("likewise where etcd says who goes on, which some or all cannot reach") {
    tell_stories(TakeoverWorld::Decider::etcd, 100);
}

}  // namespace ddprun
