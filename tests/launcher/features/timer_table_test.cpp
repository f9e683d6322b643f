#include "launcher/features/watchdog.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using TimePoint = TimerTable::TimePoint;

constexpr TimePoint kSetAt{1000h};
constexpr double kUnix = 1'732'503'600;

// A timer of `seconds` from the start of the test on.
bool set(TimerTable& table, pid_t pid, const std::string& scope, double seconds, int signal = 9) {
    return table.set({pid, scope, kUnix + seconds, signal}, 70, kSetAt, kUnix);
}

std::vector<ExpiredTimer> expired_at(TimerTable& table, std::chrono::milliseconds time) {
    return table.take_expired(kSetAt + time);
}

}  // namespace

TEST_CASE("timer table: a timer is over at its time, once, and not if it was taken back") {
    TimerTable table;
    CHECK_FALSE(table.next());
    set(table, 5, "a", 2);
    set(table, 6, "a", 1);
    CHECK(table.next() == kSetAt + 1s);
    CHECK(expired_at(table, 999ms).empty());
    CHECK(expired_at(table, 1000ms) == std::vector<ExpiredTimer>{{6, 70, "a", 9, 1000ms}});
    CHECK(expired_at(table, 1000ms).empty());
    table.release(5, "b");  // another scope
    table.release(6, "a");  // not there any more
    CHECK(table.next() == kSetAt + 2s);
    table.release(5, "a");
    CHECK_FALSE(table.next());
    CHECK(expired_at(table, 1h).empty());
}

TEST_CASE("timer table: the last one set for a scope counts, and the time that it had by the wall clock") {
    TimerTable table;
    set(table, 5, "a", 1);
    set(table, 5, "a", 3);
    CHECK(table.size() == 1);
    CHECK(table.next() == kSetAt + 3s);
    // Set a second later, the wall clock having been put an hour ahead meanwhile.
    table.set({5, "b", kUnix + 3600 + 1, 9}, 70, kSetAt + 1s, kUnix + 3600);
    CHECK(table.next() == kSetAt + 2s);
}

TEST_CASE("timer table: of one process the first that has a signal counts, and all of its timers are gone") {
    TimerTable table;
    set(table, 5, "says nothing", 1, 0);
    set(table, 5, "second", 3, 15);
    set(table, 5, "first", 2, 10);
    set(table, 5, "later", 100, 9);
    set(table, 6, "of another", 100, 9);
    CHECK(expired_at(table, 5s) ==
          std::vector<ExpiredTimer>{{5, 70, "says nothing", 0, 1000ms}, {5, 70, "first", 10, 2000ms}});
    CHECK(table.size() == 1);

    set(table, 5, "says nothing", 1, 0);
    set(table, 5, "nor this", 2, -3);
    set(table, 5, "later", 100, 9);
    CHECK(expired_at(table, 5s) ==
          std::vector<ExpiredTimer>{{5, 70, "says nothing", 0, 1000ms}, {5, 70, "nor this", -3, 2000ms}});
    CHECK(table.size() == 2);
}

TEST_CASE("timer table: times that no clock has") {
    TimerTable table;
    set(table, 5, "past", -1e9);
    CHECK(expired_at(table, 0ms).size() == 1);
    set(table, 5, "far", 1e300);
    CHECK(table.next() == kSetAt + kLongestTimer);
}

TEST_CASE("timer table: so many timers and no more, but for those of processes that are gone") {
    TimerTable table;
    for (std::size_t i = 0; i < kMaxTimers; ++i)
        REQUIRE(set(table, i % 2 == 0 ? 5 : 6, std::to_string(i), 1));
    CHECK_FALSE(set(table, 5, "one more", 1));
    CHECK(set(table, 5, "0", 7));  // one that is there
    CHECK(table.size() == kMaxTimers);
    table.forget([](pid_t pid, std::uint64_t start_time) { return pid == 6 && start_time == 70; });
    CHECK(table.size() == kMaxTimers / 2);
    CHECK(set(table, 5, "one more", 1));
}

TEST_CASE("timer table: what was held up goes on later") {
    TimerTable table;
    set(table, 5, "a", 2);
    table.shift(10s);
    CHECK(expired_at(table, 11s).empty());
    CHECK(expired_at(table, 12s) == std::vector<ExpiredTimer>{{5, 70, "a", 9, 2000ms}});
}

TEST_CASE("timer table: in words") {
    CHECK(to_text(ExpiredTimer{5, 70, "train.py#12", 9, 301ms}) == "'train.py#12' of 0.3 s");
    CHECK(to_text(ExpiredTimer{5, 70, "a\x1b[1mb", 9, 3'600'004ms}) == "'ab' of 3600 s");
    CHECK(to_text(ExpiredTimer{5, 70, std::string(500, 'x'), 9, 1s}).size() < 200);
}

}  // namespace ddprun
