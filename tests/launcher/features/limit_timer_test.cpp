#include "launcher/features/time_limit.hpp"

#include <boost/asio/io_context.hpp>
#include <variant>

#include "launcher/output/launcher_log.hpp"
#include "launcher/wall_clock.hpp"
#include "tests/launcher/agent/fake_agent.hpp"
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

TEST_CASE("the time limit's feature: only a host warns, and only the workers of a round that runs") {
    boost::asio::io_context context;
    FakeAgent agent(context.get_executor());
    agent.given.times.warn_before = 1s;
    agent.given.times.scheduler_end_unix_ms = -5;
    agent.given.requeue_signals = {SIGUSR1};
    LauncherLog log;
    FeatureInputs inputs{.options = agent.given, .log = log};
    const auto limit = make_time_limit(inputs);
    REQUIRE(limit);
    const auto begin_round = [&limit](int round) {
        limit->learnt(StateChanged{AgentState::joining, AgentEvent::round_ready, AgentState::running});
        limit->workers_run(RoundReady{.round = round});
    };
    limit->began(agent);
    limit->learnt(PlaceKnown{{"node-0", 29500}, false});
    begin_round(3);
    CHECK(agent.sent.empty());
    limit->learnt(TookOver{});
    begin_round(4);
    REQUIRE(agent.sent.size() == 1);
    const auto& notice = std::get<NoticeSignal>(agent.sent.front());
    CHECK(notice.round == 4);
    CHECK(notice.signal == SIGUSR1);
    CHECK(notice.requeue);
    CHECK(agent.said.size() == 1);
    REQUIRE(agent.told.size() == 1);
    CHECK(std::get<TimeWarning>(agent.told.front()).text == agent.said.front());
    limit->learnt(StateChanged{AgentState::running, AgentEvent::worker_failed, AgentState::stopping});
    limit->workers_run(RoundReady{.round = 5});
    CHECK(agent.sent.size() == 1);
    CHECK(agent.over.empty());
    limit->agent_leaves();
}

}  // namespace ddprun
