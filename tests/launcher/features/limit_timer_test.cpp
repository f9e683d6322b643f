#include "launcher/features/time_limit.hpp"

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
    TimeLimitOptions options{.limit = 300ms,
                             .warn_before = 1s};  // apart, so that they come in order under load
    options.scheduler_end_unix_ms = unix_time_now_ms() + 1010;
    LimitTimer timer(context.get_executor(), {options, std::chrono::steady_clock::now()}, events_into(seen));
    timer.watch();
    timer.round_begins();
    while (seen.ends == 0) context.run_one();
    CHECK(seen.warnings == 1);
    CHECK(seen.ends == 1);
}

TEST_CASE("limit timer: of a scheduler's end that has passed the workers are told at once, in each round") {
    boost::asio::io_context context;
    Seen seen;
    TimeLimitOptions options{.warn_before = 1s};
    options.scheduler_end_unix_ms = -5;
    LimitTimer timer(context.get_executor(), {options, std::chrono::steady_clock::now()}, events_into(seen));
    timer.watch();
    CHECK(context.poll() == 0);
    context.restart();
    timer.round_begins();
    CHECK(seen.warnings == 1);
    timer.round_begins();
    CHECK(seen.warnings == 2);
    options.scheduler_end_unix_ms = unix_time_now_ms() + 1020;
    LimitTimer later(context.get_executor(), {options, std::chrono::steady_clock::now()}, events_into(seen));
    later.watch();
    later.round_begins();
    while (seen.warnings == 2) context.run_one();
    CHECK(seen.warnings == 3);
    CHECK(seen.ends == 0);
}

}  // namespace ddprun
