#include "launcher/stop/stop_consent.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

using namespace std::chrono_literals;

TEST_CASE("a stop has consent once all were asked and all that hold it have gone on, in whatever order") {
    StopConsent consent;
    CHECK_FALSE(consent.is_given());
    SECTION("nothing holds it") {
        consent.wait_for({});
        CHECK(consent.is_given());
    }
    SECTION("one goes on later, twice, and another before all were asked") {
        consent.go_on(2);
        CHECK_FALSE(consent.is_given());
        consent.wait_for({0, 2, 5});
        CHECK_FALSE(consent.is_given());
        consent.go_on(0);
        consent.go_on(0);
        CHECK_FALSE(consent.is_given());
        consent.go_on(5);
        CHECK(consent.is_given());
    }
    SECTION("one that holds nothing goes on") {
        consent.go_on(1);
        consent.go_on(3);
        consent.wait_for({0, 2});
        CHECK_FALSE(consent.is_given());
    }
}

TEST_CASE("features hold a signal for half of the time until SIGKILL, and for some seconds at most") {
    CHECK(longest_hold(kLongestHold * 30) == kLongestHold);
    CHECK(longest_hold(kLongestHold * 2) == kLongestHold);
    CHECK(longest_hold(kLongestHold) == kLongestHold / 2);
    CHECK(longest_hold(1ms) == 0ms);
    CHECK(longest_hold(0ms) == 0ms);
    CHECK(longest_hold(-1ms) == 0ms);
}

}  // namespace ddprun
