#include "rendezvous/text/whole_number.hpp"

#include <cstdint>

#include "tests/support/catch.hpp"

using namespace ddprun;

TEST_CASE("a whole number is all of its text and within its limits", "[whole_number]") {
    CHECK(whole_number<int>("0") == 0);
    CHECK(whole_number<int>("-7") == -7);
    CHECK(whole_number<int>("0012", 0) == 12);
    CHECK(whole_number<int>("-0") == 0);
    CHECK(whole_number<std::uint64_t>("18446744073709551615") == UINT64_MAX);
    CHECK(whole_number<unsigned>("ff", 0, 255, 16) == 255U);
    CHECK(whole_number<int>("5", 5, 5) == 5);

    for (const char* text : {"", " 1", "1 ", "1\n", "+1", "1.0", "1e3", "0x1", "--1", "-", "2147483648"})
        CHECK_FALSE(whole_number<int>(text));
    CHECK_FALSE(whole_number<int>("-1", 0));
    CHECK_FALSE(whole_number<int>("-0", 0));
    CHECK_FALSE(whole_number<unsigned>("-0"));
    CHECK_FALSE(whole_number<int>("4", 5, 5));
    CHECK_FALSE(whole_number<int>("6", 5, 5));
    CHECK_FALSE(whole_number<std::uint16_t>("65536"));
}
