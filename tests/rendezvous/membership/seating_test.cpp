#include "rendezvous/membership/seating.hpp"

#include <random>

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("who comes later has its own number, its host's old place, or that of another lost one") {
    Seating seating;
    CHECK(seating.seat_all({{{}, "b", true}, {{}, "a", false}, {{}, "c", false}}) ==
          std::vector<int>{0, 1, 2});
    CHECK(seating.seat({{}, "d", false}) == 3);
    seating.vacate(1, "a");
    seating.vacate(2, "c");
    CHECK(seating.seat({{}, "c", false}) == 2);
    CHECK(seating.seat({{}, "e", false}) == 1);
    seating.vacate(0, "b");
    seating.vacate(3, "d");
    CHECK(seating.seat({3, "x", false}) == 3);
    CHECK(seating.seat({3, "y", false}) == 0);
    CHECK(seating.seat({7, "z", false}) == 7);
    CHECK(seating.seat({{}, "w", false}) == 8);
}

TEST_CASE("no two nodes ever have one place, and those that are left are filled first") {
    for (unsigned seed = 1; seed <= 200; ++seed) {
        INFO("seed " << seed);
        std::mt19937 random(seed);
        auto pick = [&random](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
        Seating seating;
        std::map<int, std::string> taken;
        int most = 0;
        for (int step = 0; step < 200; ++step) {
            if (!taken.empty() && pick(1) == 0) {
                const auto one = std::next(taken.begin(), pick(static_cast<int>(taken.size()) - 1));
                seating.vacate(one->first, one->second);
                taken.erase(one);
                continue;
            }
            const std::string host = "host" + std::to_string(pick(9));
            const int place = seating.seat({{}, host, false});
            REQUIRE(taken.emplace(place, host).second);
            most = std::max(most, static_cast<int>(taken.size()));
            REQUIRE(place < most);
        }
    }
}

}  // namespace ddprun
