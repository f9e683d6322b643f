#include "rendezvous/server/unproven_calls.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

boost::asio::ip::address source_number(unsigned number) {
    return boost::asio::ip::address_v4(0x0a000000U + number);
}

}  // namespace

TEST_CASE("of one source's calls that are too many the oldest silent one goes", "[unproven]") {
    UnprovenCalls calls;
    UnprovenCalls::Id next = 0;
    CHECK_FALSE(calls.add(next++, source_number(2)));
    for (std::size_t i = 0; i < UnprovenCalls::kMostOfOneSource; ++i)
        CHECK_FALSE(calls.add(next++, source_number(1)));
    calls.speaks(1);
    CHECK(calls.add(next++, source_number(1)) == 2);
    calls.remove(3);
    CHECK_FALSE(calls.add(next++, source_number(1)));
    CHECK(calls.size() == UnprovenCalls::kMostOfOneSource + 1);
    // Those who have begun to speak make room only for lack of silent ones.
    for (UnprovenCalls::Id id = 0; id < next; ++id) calls.speaks(id);
    CHECK(calls.add(next++, source_number(1)) == 1);
    calls.remove(1);
    CHECK(calls.size() == UnprovenCalls::kMostOfOneSource + 1);
}

TEST_CASE("of our own user's calls any number may come, and there may be fewer in all", "[unproven]") {
    UnprovenCalls calls(UnprovenCalls::kMostOfOneSource + 2);
    UnprovenCalls::Id next = 0;
    for (; next < UnprovenCalls::kMostOfOneSource + 2; ++next) CHECK_FALSE(calls.add(next, std::nullopt));
    CHECK(calls.add(next++, source_number(1)) == 0);
    CHECK(calls.add(next++, std::nullopt) == 1);
}

TEST_CASE("of all calls that are too many the oldest silent one goes, wherever it is from", "[unproven]") {
    UnprovenCalls calls;
    for (UnprovenCalls::Id id = 0; id < UnprovenCalls::kMost; ++id)
        CHECK_FALSE(calls.add(id, source_number(static_cast<unsigned>(id / 8))));
    calls.speaks(0);
    CHECK(calls.add(1'000, source_number(200)) == 1);
    CHECK(calls.add(1'001, source_number(200)) == 2);
    CHECK(calls.size() == UnprovenCalls::kMost);
}

TEST_CASE("a call goes as a silent one only if nothing of it waits to be read", "[unproven]") {
    UnprovenCalls calls;
    for (UnprovenCalls::Id id = 0; id < UnprovenCalls::kMost; ++id)
        CHECK_FALSE(calls.add(id, source_number(static_cast<unsigned>(id / 8))));
    const auto has_said = [](UnprovenCalls::Id id) { return id != 7 && id != 1'000; };
    CHECK(calls.add(1'000, source_number(200), has_said) == 7);
    // All others have said something, so the oldest of those goes next, but for one that is silent.
    CHECK(calls.add(1'001, source_number(200), has_said) == 1'000);
    CHECK(calls.add(1'002, source_number(200), has_said) == 0);
}
