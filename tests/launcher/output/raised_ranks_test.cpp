#include "launcher/output/raised_ranks.hpp"

#include <chrono>

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("raised ranks: in the order in which they began, as long as that was lately") {
    const RaisedRanks::TimePoint start{};
    const auto at = [start](int seconds) { return start + std::chrono::seconds(seconds); };
    RaisedRanks ranks;
    RaisedWords first, second;
    first.note("Traceback (most recent call last):");
    ranks.take(3, first, at(1));
    second.note("panic: no");
    ranks.take(1, second, at(2));
    first.note("ValueError: x");
    ranks.take(3, first, at(3));  // it began before
    auto found = ranks.since(at(1));
    REQUIRE(found.size() == 2);
    CHECK((found[0].rank == 3 && found[0].text == "ValueError: x"));
    CHECK((found[1].rank == 1 && found[1].text == "panic: no"));
    REQUIRE(ranks.since(at(2)).size() == 1);
    CHECK(ranks.since(at(2)).front().rank == 1);

    first.note("Traceback (most recent call last):");
    ranks.take(3, first, at(4));  // what was caught before is over
    found = ranks.since(at(1));
    REQUIRE(found.size() == 2);
    CHECK(found[0].rank == 1);
    CHECK(found[1].text.empty());

    ranks.clear();
    CHECK(ranks.since(at(0)).empty());
}

}  // namespace ddprun
