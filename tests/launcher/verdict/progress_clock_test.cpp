#include "launcher/verdict/progress_clock.hpp"

#include <functional>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using Signs = std::vector<ProgressSign>;

struct SignCase {
    const char* name;
    std::function<void(RankMeasure&)> change;  // within 2 s
    Signs signs;
};

const SignCase kCases[] = {
    {"nothing", [](auto&) {}, {}},
    {"a byte", [](auto& rank) { rank.output_bytes += 1; }, {ProgressSign::output}},
    {"a call", [](auto& rank) { rank.calls += 1; }, {ProgressSign::call}},
    {"keepalives", [](auto& rank) { rank.traffic_bytes += 1000; }, {}},
    {"traffic", [](auto& rank) { rank.traffic_bytes += 1001; }, {ProgressSign::traffic}},
    {"a little disk", [](auto& rank) { rank.disk_bytes += 128 * 1024; }, {}},
    {"disk", [](auto& rank) { rank.disk_bytes += 128 * 1024 + 1; }, {ProgressSign::disk}},
    {"a little of files", [](auto& rank) { rank.file_bytes += 512 * 1024; }, {}},
    {"files", [](auto& rank) { rank.file_bytes += 512 * 1024 + 1; }, {ProgressSign::file}},
    {"a child", [](auto& rank) { rank.children += 1; }, {ProgressSign::child}},
    {"children that hardly compute", [](auto& rank) { rank.children_cpu += milliseconds(60); }, {}},
    {"children that compute",
     [](auto& rank) { rank.children_cpu += milliseconds(61); },
     {ProgressSign::busy_children}},
    {"its own CPU time", [](auto& rank) { rank.cpu += seconds(2); }, {}},
    {"switches of one that runs or waits with a limit", [](auto& rank) { rank.switches += 9; }, {}},
    {"counters that fell", [](auto& rank) { rank = RankMeasure{}; }, {}},
};

const Deadline kStart = Deadline() + std::chrono::hours(1);

ProgressClock clock_of(seconds going, seconds starting) { return ProgressClock({going, starting}); }

}  // namespace

TEST_CASE("clock: what is a sign of progress, and what never is") {
    RankMeasure before;
    before.output_bytes = before.calls = before.traffic_bytes = before.disk_bytes = before.file_bytes = 5000;
    before.children = 3;
    before.children_cpu = seconds(5);
    for (const SignCase& one : kCases) {
        RankMeasure after = before;
        one.change(after);
        INFO(one.name);
        CHECK(signs_between(before, after, seconds(2)) == one.signs);
    }
    RankMeasure woken = before;
    woken.switches += 1;
    before.waits_untimed = true;
    CHECK(signs_between(before, woken, seconds(2)) == Signs{ProgressSign::woken});
    CHECK(signs_between(before, before, milliseconds(0)).empty());
}

TEST_CASE("clock: the first budget is three times the second, at least ten minutes, or what was asked for") {
    CHECK(hang_budgets(seconds(30), {}).starting == seconds(600));
    CHECK(hang_budgets(seconds(300), {}).starting == seconds(900));
    CHECK(hang_budgets(seconds(300), seconds(5)).starting == seconds(5));
    CHECK(hang_budgets(seconds(300), {}).going == seconds(300));
}

TEST_CASE("clock: a time in which the job stood still with its launcher does not count") {
    ProgressClock clock = clock_of(seconds(10), seconds(100));
    clock.begin(kStart);
    clock.hear(ProgressSign::output, kStart);
    clock.skip(seconds(60));
    CHECK(clock.look(kStart + seconds(69)) == ClockAction::none);
    CHECK(clock.age(kStart + seconds(65)) == seconds(5));
    CHECK(clock.look(kStart + seconds(70)) == ClockAction::judge);
}

TEST_CASE("clock: the first budget runs until the first sign, the second from the last one on") {
    ProgressClock clock = clock_of(seconds(10), seconds(100));
    clock.begin(kStart);
    CHECK(clock.due() == kStart + seconds(100));
    CHECK(clock.look(kStart + seconds(99)) == ClockAction::none);
    CHECK(!clock.has_progressed());
    CHECK(clock.hear(ProgressSign::output, kStart + seconds(50)) == ClockAction::none);
    CHECK(clock.state() == ClockState::going);
    CHECK(clock.last_sign() == ProgressSign::output);
    CHECK(clock.due() == kStart + seconds(60));
    CHECK(clock.age(kStart + seconds(57)) == seconds(7));
    CHECK(clock.look(kStart + seconds(60) - milliseconds(1)) == ClockAction::none);
    CHECK(clock.look(kStart + seconds(60)) == ClockAction::judge);
    // What was heard late does not set the clock back.
    clock.hear(ProgressSign::call, kStart + seconds(10));
    CHECK(clock.due() == kStart + seconds(60));
    CHECK(clock.age(kStart) == milliseconds(0));
}

TEST_CASE("clock: a hang is told once, and so is its end") {
    ProgressClock clock = clock_of(seconds(10), seconds(100));
    clock.begin(kStart);
    clock.hear(ProgressSign::output, kStart);
    CHECK(clock.look(kStart + seconds(10)) == ClockAction::judge);
    CHECK(clock.judged(false) == ClockAction::none);
    CHECK(clock.look(kStart + seconds(11)) == ClockAction::judge);
    CHECK(clock.judged(true) == ClockAction::tell);
    CHECK(clock.state() == ClockState::hung);
    CHECK(clock.look(kStart + seconds(12)) == ClockAction::none);
    CHECK(clock.judged(true) == ClockAction::none);
    CHECK(clock.hear(ProgressSign::traffic, kStart + seconds(13)) == ClockAction::tell_over);
    CHECK(clock.hear(ProgressSign::traffic, kStart + seconds(14)) == ClockAction::none);
    CHECK(clock.state() == ClockState::going);
}

TEST_CASE("clock: a hang before the first sign, and another round") {
    ProgressClock clock = clock_of(seconds(10), seconds(100));
    clock.begin(kStart);
    CHECK(clock.look(kStart + seconds(100)) == ClockAction::judge);
    CHECK(clock.judged(true) == ClockAction::tell);
    CHECK(clock.state() == ClockState::hung_early);
    CHECK(clock.begin(kStart + seconds(120)) == ClockAction::tell_over);
    CHECK(clock.state() == ClockState::starting);
    CHECK(clock.due() == kStart + seconds(220));
    clock.hear(ProgressSign::call, kStart + seconds(130));
    CHECK(clock.begin(kStart + seconds(140)) == ClockAction::none);
    CHECK(!clock.has_progressed());
    CHECK(clock.due() == kStart + seconds(240));
}

}  // namespace ddprun
