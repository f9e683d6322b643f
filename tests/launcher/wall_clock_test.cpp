#include "launcher/wall_clock.hpp"

#include <cstdlib>
#include <limits>

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("wall clock: texts") {
    using std::chrono::minutes;
    CHECK(wall_clock_text(1'714'559'696'789, minutes(120)) == "2024-05-01 12:34:56.789 +0200");
    CHECK(wall_clock_text(1'714'559'696'789, minutes(-570)) == "2024-05-01 01:04:56.789 -0930");
    CHECK(wall_clock_text(0, minutes(-60)) == "1969-12-31 23:00:00.000 -0100");
    CHECK(utc_text(1'709'164'800'001) == "2024-02-29T00:00:00.001Z");
    CHECK(time_stamp(1'709'164'800) == "20240229-000000");
    CHECK(time_stamp(-1) == "19691231-235959");
    CHECK(utc_text(-1) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("wall clock: numbers that are no times are shown as far days") {
    CHECK(utc_text(std::numeric_limits<std::int64_t>::max()) == "9999-12-31T23:59:59.999Z");
    CHECK(utc_text(std::numeric_limits<std::int64_t>::min()) == "0001-01-01T00:00:00.000Z");
}

TEST_CASE("wall clock: now is later than the day this was written, and near a zone's offset") {
    CHECK(unix_time_now_ms() > 1'600'000'000'000);
    const auto offset = local_utc_offset(unix_time_now_ms());
    CHECK(std::abs(offset.count()) <= 15 * 3600);
    CHECK(offset.count() % 60 == 0);
}

}  // namespace ddprun
