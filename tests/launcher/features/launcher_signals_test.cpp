#include "launcher/features/launcher_signals.hpp"

#include <signal.h>

#include <boost/asio/io_context.hpp>

#include "tests/launcher/agent/fake_agent.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// A launcher whose job SIGTERM, SIGINT and SIGUSR2 end, and which passes SIGUSR1 on as SIGCONT.
struct Launched {
    Launched() {
        ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        agent.given.terminating_signals = {SIGTERM, SIGINT, SIGUSR2};
        agent.given.forwarded_signals = {{SIGUSR1, SIGCONT}};
        agent.given.requeue_signals = {SIGUSR1};
        signals->began(agent);
        RoundReady round;
        round.round = 3;
        signals->heard(round);
    }
    ~Launched() {
        signals->agent_leaves();
        ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    }
    void send(int signal) { signals->learnt(SignalSent{signal}); }

    sigset_t mask{};
    boost::asio::io_context context;
    FakeAgent agent{context.get_executor()};
    LaunchOptions made_of;
    LauncherLog log{Verbosity::quiet};
    FeatureInputs inputs{.options = made_of, .log = log, .rdzv_backend = {}, .start = {}, .options_read = {}};
    std::unique_ptr<Feature> signals = make_launcher_signals(inputs);
};

using Ends = std::vector<std::pair<int, bool>>;

}  // namespace

TEST_CASE("what a signal means to the job") {
    Launched launched;
    FakeAgent& agent = launched.agent;
    SECTION("it ends it") {
        launched.send(SIGTERM);
        CHECK(agent.ended_by == Ends{{SIGTERM, false}});
        CHECK(agent.told.size() == 1);
    }
    SECTION("two interrupts that come together are one, and another signal between them changes nothing") {
        launched.send(SIGINT);
        launched.send(SIGTERM);
        launched.send(SIGINT);
        CHECK(agent.ended_by == Ends{{SIGINT, false}, {SIGTERM, false}});
        CHECK(agent.told.size() == 3);
    }
    SECTION("one that nobody expects ends it as SIGTERM does, and is named") {
        launched.send(SIGXCPU);
        CHECK(agent.ended_by.empty());
        REQUIRE(agent.over.size() == 1);
        CHECK_THAT(agent.over.front(), Catch::StartsWith("SIGXCPU came, which has no meaning here"));
    }
    SECTION("it goes on to all workers of the round") {
        launched.send(SIGUSR1);
        CHECK(agent.ended_by.empty());
        REQUIRE(agent.sent.size() == 1);
        const auto& notice = std::get<NoticeSignal>(agent.sent.front());
        CHECK(notice.round == 3);
        CHECK(notice.signal == SIGCONT);
        CHECK(notice.requeue);
    }
    SECTION("the terminal has another size, which is no event") {
        launched.send(SIGWINCH);
        CHECK(agent.resized == 1);
        CHECK(agent.told.empty());
        CHECK(agent.ended_by.empty());
    }
    SECTION("Ctrl-Z makes it stand still") {
        launched.send(SIGTSTP);
        CHECK(agent.suspended == 1);
        CHECK(agent.ended_by.empty());
    }
}

TEST_CASE("a signal that ends a job may be SIGTSTP, too") {
    Launched launched;
    launched.agent.given.terminating_signals = {SIGTSTP};
    launched.send(SIGTSTP);
    CHECK(launched.agent.ended_by == Ends{{SIGTSTP, false}});
    CHECK(launched.agent.suspended == 0);
}

TEST_CASE("the launcher hears signals until it leaves, and is not ended by one that comes then") {
    Launched launched;
    ::raise(SIGUSR2);
    while (launched.agent.ended_by.empty()) launched.context.run_one();
    CHECK(launched.agent.ended_by == Ends{{SIGUSR2, false}});
    ::raise(SIGUSR2);
    launched.signals->agent_leaves();
    launched.context.run();
    CHECK(launched.agent.ended_by.size() == 1);
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    CHECK(::sigismember(&blocked, SIGUSR2) == 1);
    CHECK(::sigismember(&blocked, SIGUSR1) == 1);
    CHECK(::sigismember(&blocked, SIGSEGV) == 0);
}

}  // namespace ddprun
