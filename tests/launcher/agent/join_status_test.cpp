#include "launcher/agent/join_status.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

using namespace std::chrono_literals;

namespace {
const JoinStatus::TimePoint kStart{};
}

TEST_CASE("an agent that joins is silent at first, then says each cause once") {
    JoinStatus status(kStart, 3s, 15min, "");
    CHECK(status.trouble("refused", kStart + 1s).empty());
    CHECK(status.trouble("refused", kStart + 4s) == "waiting for node 0: refused");
    CHECK(status.trouble("no route", kStart + 6s) == "waiting for node 0: no route");
    for (int i = 0; i < 100; ++i) {
        CHECK(status.trouble("refused", kStart + 7s).empty());
        CHECK(status.trouble("no route", kStart + 8s).empty());
    }
    CHECK(status.waiting({1, 2, {1}}) == "joined 1/2, missing node 1");
    CHECK(status.waiting({1, 2, {1}}).empty());
}

TEST_CASE("causes without end are not all printed") {
    JoinStatus status(kStart, 0s, 15min, "");
    std::size_t printed = 0;
    for (int i = 0; i < 1000; ++i)
        printed += status.trouble("cause " + std::to_string(i), kStart + 1s).empty() ? 0 : 1;
    CHECK(printed == JoinStatus::kMaxCauses);
}

TEST_CASE("every minute a reminder says how long it has been and how long it may be") {
    JoinStatus status(kStart, 3s, 15min, "have you forgotten something");
    REQUIRE(status.reminder_due() == kStart + 1min);
    CHECK(status.remind(kStart + 59s).empty());
    CHECK(status.remind(kStart + 1min).empty());  // nothing is known
    status.waiting({1, 2, {1}});
    REQUIRE(status.reminder_due() == kStart + 2min);
    CHECK(status.remind(kStart + 2min) ==
          "joined 1/2, missing node 1; this for 2 min of at most 15 min (--rdzv-conf join_timeout); have you "
          "forgotten something");
    // A machine that slept owes one reminder, not all that it missed.
    CHECK(status.remind(kStart + 5min + 30s) != "");
    CHECK(status.reminder_due() == kStart + 6min);
    status.trouble("refused", kStart + 6min);
    CHECK_THAT(status.remind(kStart + 6min),
               Catch::StartsWith("waiting for node 0: refused; this for 6 min"));
}

}  // namespace ddprun
