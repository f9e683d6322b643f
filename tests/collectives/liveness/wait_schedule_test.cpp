// When a waiting rank asks and gives notice.
#include "collectives/liveness/judgement.hpp"

#include <vector>

#include "collectives/session/place.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

using Milliseconds = std::chrono::milliseconds;

constexpr WaitSchedule::Clock::time_point kBegin{std::chrono::hours(1)};

}  // namespace

TEST_CASE("questions come after half a second, then after pauses that double up to half a minute",
          "[patience]") {
    WaitSchedule patience(kBegin, Milliseconds(0));
    auto now = kBegin;
    for (const int pause : {500, 500, 1000, 2000, 4000, 8000, 16'000, 30'000, 30'000}) {
        REQUIRE(patience.next() == now + Milliseconds(pause));
        REQUIRE_FALSE(patience.takes_question(patience.next() - Milliseconds(1)));
        now = patience.next();
        REQUIRE(patience.takes_question(now));
        REQUIRE_FALSE(patience.takes_question(now));
        REQUIRE_FALSE(patience.takes_inquiry(now));
        REQUIRE_FALSE(patience.takes_notice(now));
    }
    REQUIRE(patience.round() == 9);
}

TEST_CASE("a notice is given once, when the others had time to say where they are", "[patience]") {
    WaitSchedule patience(kBegin, Milliseconds(200));
    const auto asked = kBegin + Milliseconds(200);
    REQUIRE(patience.next() == asked);
    REQUIRE(patience.takes_inquiry(asked));
    REQUIRE_FALSE(patience.takes_inquiry(asked));
    REQUIRE_FALSE(patience.takes_notice(asked + kAnswerTimeout - Milliseconds(1)));
    REQUIRE(patience.takes_notice(asked + kAnswerTimeout));
    REQUIRE_FALSE(patience.takes_notice(asked + 2 * kAnswerTimeout));
}

TEST_CASE("of the ranks that wait in one call, the lowest says so", "[patience]") {
    const Call call{Operation::barrier, DataType::f32, ReduceOp::sum, -1, 0, 3};
    const Call before{Operation::barrier, DataType::f32, ReduceOp::sum, -1, 0, 2};
    const NamedTimeout limit{Milliseconds(30'000), "notice_after"};
    const std::vector<std::optional<Call>> progress{before, call, call};
    REQUIRE_FALSE(notice_of_wait(progress, call, 2, {0}, limit).has_value());
    REQUIRE(notice_of_wait(progress, call, 1, {0}, limit) ==
            "ddprun: rank 1 waits in barrier() as call 3: after 30 s (notice_after) rank 0 is at barrier() "
            "as call 2");
}

TEST_CASE("DDPRUN_NOTICE is a number of seconds", "[patience]") {
    REQUIRE(read_notice({}) == Milliseconds(0));
    REQUIRE(read_notice({{"DDPRUN_NOTICE", "0"}}) == Milliseconds(0));
    REQUIRE(read_notice({{"DDPRUN_NOTICE", "30"}}) == Milliseconds(30'000));
    for (const char* wrong : {"", "soon", "-1", "3s", "99999999999"}) {
        try {
            static_cast<void>(read_notice({{"DDPRUN_NOTICE", wrong}}));
            FAIL("'" << wrong << "' was taken");
        } catch (const CollectiveError& error) {
            REQUIRE(error.code() == CollectiveErrorCode::invalid_argument);
            REQUIRE(std::string(error.what()).find("DDPRUN_NOTICE='") != std::string::npos);
        }
    }
}

TEST_CASE("a rank that stood still while it waited gives its peers the whole time again", "[patience]") {
    using std::chrono::seconds;
    const auto end = kBegin + seconds(60), planned = kBegin + seconds(50);
    const auto end_after = [&](auto now) { return end_after_sleep(end, planned, now, seconds(300)); };
    CHECK(end_after(planned - seconds(10)) == end);
    CHECK(end_after(planned) == end);
    CHECK(end_after(planned + kStandstill) == end);
    CHECK(end_after(planned + seconds(2)) == planned + seconds(302));
    CHECK(end_after(end + seconds(3600)) == end + seconds(3900));
    // Nobody waits for that one.
    CHECK(end_after_sleep(Deadline::max(), planned, end, seconds(300)) == Deadline::max());
    CHECK(end_after_sleep(end, Deadline::max(), end + seconds(10), seconds(300)) == end);
}
