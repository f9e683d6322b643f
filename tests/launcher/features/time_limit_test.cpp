#include "launcher/features/time_limit.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kWallStart = 1'000'000;  // what the wall clock shows at the start
const TimeLimit::TimePoint kLaunched{1h};

// So long after the start, by clocks that agree or by a wall clock that is `ahead` by now.
Moment at(std::chrono::milliseconds time, std::chrono::milliseconds ahead = 0ms) {
    return {kLaunched + time, kWallStart + (time + ahead).count()};
}

TimeLimitOptions limits(std::optional<std::chrono::milliseconds> limit,
                        std::optional<std::chrono::milliseconds> warn_before = {},
                        std::optional<std::chrono::milliseconds> scheduler_end = {}) {
    TimeLimitOptions options{.limit = limit, .warn_before = warn_before};
    options.limit_text = "2h";
    options.warn_text = "120";
    if (scheduler_end) options.scheduler_end_unix_ms = kWallStart + scheduler_end->count();
    return options;
}

std::string text(const TimeLimit::Due& due) { return due.end ? "end" : due.warning ? "warning" : "-"; }

}  // namespace

TEST_CASE("time limit: without one nothing is ever due") {
    TimeLimit limit({}, kLaunched);
    limit.round_begins(at(0ms));
    CHECK_FALSE(limit.next().steady);
    CHECK_FALSE(limit.next().unix_ms);
    CHECK_FALSE(limit.needs_wall_clock());
    CHECK(text(limit.take(at(1000h))) == "-");
}

TEST_CASE("time limit: the end comes once, also before any round, and by the steady clock alone") {
    TimeLimit limit(limits(10s), kLaunched);
    CHECK(limit.next().steady == kLaunched + 10s);
    CHECK(text(limit.take(at(9999ms))) == "-");
    CHECK(text(limit.take(at(9999ms, 48h))) == "-");
    CHECK(text(limit.take(at(10s, -48h))) == "end");
    CHECK_FALSE(limit.next().steady);
    CHECK(text(limit.take(at(11s))) == "-");
    CHECK(limit.end_text() == "the time limit (--time-limit 2h) has passed");
}

TEST_CASE("time limit: what is due when") {
    struct Row {
        const char* what;
        TimeLimitOptions options;
        std::chrono::milliseconds begins;  // the round
        std::vector<std::pair<std::chrono::milliseconds, const char*>> looks;
    };
    const Row rows[] = {
        {"a warning, then the end",
         limits(100s, 30s),
         0s,
         {{69'999ms, "-"}, {70s, "warning"}, {71s, "-"}, {99s, "-"}, {100s, "end"}, {101s, "-"}}},
        {"the scheduler's end warns, and ends nothing",
         limits({}, 30s, 100s),
         0s,
         {{69'999ms, "-"}, {70s, "warning"}, {100s, "-"}, {1h, "-"}}},
        {"the earlier of both limits counts, here the scheduler's",
         limits(100s, 30s, 50s),
         0s,
         {{19'999ms, "-"}, {20s, "warning"}, {70s, "-"}, {100s, "end"}}},
        {"here the job's own",
         limits(50s, 30s, 100s),
         0s,
         {{19'999ms, "-"}, {20s, "warning"}, {50s, "end"}, {70s, "-"}}},
        {"workers that start after the warning's time get it half-way to the limit",
         limits(100s, 30s),
         80s,
         {{80s, "-"}, {89'999ms, "-"}, {90s, "warning"}, {100s, "end"}}},
        {"so do those of a limit shorter than the warning",
         limits({}, 30s, 10s),
         0s,
         {{4999ms, "-"}, {5s, "warning"}, {10s, "-"}}},
        {"a limit that has passed warns at once", limits({}, 30s, 10s), 20s, {{20s, "warning"}, {21s, "-"}}},
        {"a late look finds the end only", limits(100s, 30s), 0s, {{200s, "end"}, {201s, "-"}}},
    };
    for (const Row& row : rows) {
        TimeLimit limit(row.options, kLaunched);
        limit.round_begins(at(row.begins));
        for (const auto& [time, expected] : row.looks) {
            INFO(row.what << ", at " << time.count() << " ms");
            CHECK(text(limit.take(at(time))) == expected);
        }
    }
}

TEST_CASE("time limit: who keeps to the wakeups misses nothing") {
    TimeLimit limit(limits(100s, 30s), kLaunched);
    limit.round_begins(at(0ms));
    std::string seen;
    while (const auto wakeup = limit.next().steady) seen += text(limit.take({*wakeup, kWallStart})) + " ";
    CHECK(seen == "warning end ");
}

TEST_CASE("time limit: every round gets the warning, and none before its workers run") {
    TimeLimit limit(limits(100s, 30s), kLaunched);
    CHECK(text(limit.take(at(75s))) == "-");
    limit.round_begins(at(80s));
    CHECK(text(limit.take(at(90s))) == "warning");
    limit.round_begins(at(96s));
    CHECK(text(limit.take(at(97s))) == "-");
    CHECK(text(limit.take(at(98s))) == "warning");
    CHECK(text(limit.take(at(100s))) == "end");
    limit.round_begins(at(101s));
    CHECK(text(limit.take(at(110s))) == "-");
}

TEST_CASE("time limit: a wall clock that is set moves the scheduler's end with it") {
    const auto begun = [] {
        TimeLimit limit(limits({}, 30s, 100s), kLaunched);
        limit.round_begins(at(0ms));
        return limit;
    };
    TimeLimit forward = begun();
    CHECK(forward.needs_wall_clock());
    CHECK(forward.next().unix_ms == kWallStart + 70'000);
    CHECK_FALSE(forward.next().steady);
    CHECK(text(forward.take(at(10s, 59s))) == "-");
    CHECK(text(forward.take(at(10s, 60s))) == "warning");
    TimeLimit backward = begun();
    CHECK(text(backward.take(at(70s, -1h))) == "-");
    CHECK(backward.next().unix_ms == kWallStart + 70'000);
    CHECK(text(backward.take(at(70s + 1h, -1h))) == "warning");
    // Told once, though the clock then comes to that time again.
    TimeLimit twice = begun();
    CHECK(text(twice.take(at(70s))) == "warning");
    CHECK(text(twice.take(at(71s, -60s))) == "-");
    CHECK(text(twice.take(at(131s, -60s))) == "-");
}

TEST_CASE("time limit: the warning's line tells how long there is") {
    TimeLimit limit(limits(100s, 30s, 200s), kLaunched);
    CHECK(limit.warn_signal() == SIGUSR1);
    CHECK(limit.warning_text(at(69'998ms)) ==
          "SIGUSR1 to all workers, 30 s before the limit (--warn-before 120)");
    CHECK(limit.warning_text(at(69'998ms, 120s)) ==
          "SIGUSR1 to all workers, 10 s before the limit (--warn-before 120)");
    CHECK(limit.warning_text(at(100s)) == "SIGUSR1 to all workers, the limit is reached (--warn-before 120)");
}

}  // namespace ddprun
