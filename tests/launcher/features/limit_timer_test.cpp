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

// A host whose workers run, with these limits.
struct LimitedAgent {
    explicit LimitedAgent(const TimeLimitOptions& times) {
        agent.given.features.of<TimeLimitOptions>() = times;
        agent.given.start = std::chrono::steady_clock::now();
        limit = make_time_limit(inputs);
        limit->began(agent);
        limit->learnt(PlaceKnown{{"node-0", 29500}, true});
        limit->learnt(StateChanged{AgentState::joining, AgentEvent::round_ready, AgentState::running});
    }
    std::size_t warnings() const { return agent.told.size(); }
    std::size_t ends() const { return agent.over.size(); }

    boost::asio::io_context context;
    FakeAgent agent{context.get_executor()};
    LauncherLog log;
    FeatureInputs inputs{.options = agent.given, .log = log};
    std::unique_ptr<Feature> limit;
};

}  // namespace

TEST_CASE("limit timer: a steady time and a wall time are both waited for") {
    TimeLimitOptions options{.limit = 8s, .warn_before = 1s};  // apart, so that they come in order under load
    options.scheduler_end_unix_ms = unix_time_now_ms() + 1010;
    LimitedAgent limited(options);
    limited.limit->workers_run({});
    while (limited.ends() == 0) limited.context.run_one();
    CHECK(limited.warnings() == 1);
    CHECK(limited.ends() == 1);
}

TEST_CASE("limit timer: of a scheduler's end that has passed the workers are told at once, in each round") {
    TimeLimitOptions options{.warn_before = 1s};
    options.scheduler_end_unix_ms = -5;
    LimitedAgent limited(options);
    CHECK(limited.context.poll() == 0);
    limited.context.restart();
    limited.limit->workers_run({});
    CHECK(limited.warnings() == 1);
    limited.limit->workers_run({});
    CHECK(limited.warnings() == 2);
    options.scheduler_end_unix_ms = unix_time_now_ms() + 1020;
    LimitedAgent later(options);
    later.limit->workers_run({});
    while (later.warnings() == 0) later.context.run_one();
    CHECK(later.warnings() == 1);
    CHECK(later.ends() == 0);
}

TEST_CASE("the time limit's feature: only a host warns, and only the workers of a round that runs") {
    boost::asio::io_context context;
    FakeAgent agent(context.get_executor());
    agent.given.features.of<TimeLimitOptions>() = {.warn_before = 1s, .scheduler_end_unix_ms = -5};
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
