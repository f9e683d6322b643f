#include "rendezvous/membership/exclusion.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("a node is due when it was the culprit so often, and another machine in its place begins anew") {
    Exclusion exclusion(2);
    exclusion.blame(1, "gpu01");
    exclusion.blame(2, "gpu01");
    CHECK_FALSE(exclusion.is_due(1, "gpu01"));
    exclusion.blame(1, "gpu01");
    CHECK(exclusion.is_due(1, "gpu01"));
    CHECK_FALSE(exclusion.is_due(2, "gpu01"));
    CHECK_FALSE(exclusion.is_due(1, "gpu07"));
    CHECK(exclusion.reason(1, "gpu01") == "its workers failed first in 2 rounds (--exclude-after 2)");

    Exclusion first(1);
    first.blame(0, "gpu00");
    CHECK(first.reason(0, "gpu00") == "its workers failed first in 1 round (--exclude-after 1)");
    Exclusion never(0);
    for (int i = 0; i < 10; ++i) never.blame(0, "gpu00");
    CHECK_FALSE(never.is_due(0, "gpu00"));
}

TEST_CASE("a machine that is left out is so until that is taken back") {
    Exclusion exclusion(3);
    CHECK(exclusion.why("gpu01") == nullptr);
    exclusion.exclude("gpu01", "it is slow");
    REQUIRE(exclusion.why("gpu01") != nullptr);
    CHECK(*exclusion.why("gpu01") == "it is slow");
    exclusion.take_back("gpu01");
    CHECK(exclusion.why("gpu01") == nullptr);
}

}  // namespace ddprun
