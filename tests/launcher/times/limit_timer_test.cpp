#include "launcher/times/limit_timer.hpp"

#include <boost/asio/io_context.hpp>

#include "launcher/wall_clock.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

struct Seen {
    int warnings = 0;
    int ends = 0;
};

LimitEvents events_into(Seen& seen) {
    return {.on_end = [&seen](const std::string&) { ++seen.ends; },
            .on_warning = [&seen](int, const std::string&) { ++seen.warnings; }};
}

}  // namespace

TEST_CASE("limit timer: a steady time and a wall time are both waited for") {
    boost::asio::io_context context;
    Seen seen;
    TimeLimitOptions options{.limit = 30ms, .warn_before = 1s};
    options.scheduler_end_unix_ms = unix_time_now_ms() + 1010;
    LimitTimer timer(context.get_executor(), {options, std::chrono::steady_clock::now()}, events_into(seen));
    timer.watch();
    timer.round_begins();
    while (seen.ends == 0) context.run_one();
    CHECK(seen.warnings == 1);
    CHECK(seen.ends == 1);
}

TEST_CASE("wall timer: a time that has passed is told at once, no time never, and the last one set counts") {
    boost::asio::io_context context;
    int told = 0;
    WallTimer timer(context.get_executor(), [&told] { ++told; });
    timer.set(unix_time_now_ms() + 3'600'000);
    timer.set(std::nullopt);
    CHECK(context.poll() == 0);
    timer.set(-5);
    context.run_one();
    CHECK(told == 1);
    timer.set(unix_time_now_ms() + 20);
    context.run_one();
    CHECK(told == 2);
}

}  // namespace ddprun
