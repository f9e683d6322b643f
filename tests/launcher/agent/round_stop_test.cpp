// Stops of a round that a feature holds.
#include <algorithm>
#include <csignal>

#include "tests/launcher/agent/holding_feature.hpp"
#include "tests/launcher/agent/started_round.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

const Lines kInterrupted{"0 SIGINT auto", "1 SIGINT auto", "0 SIGCONT", "1 SIGCONT"};
const Lines kKilled{"0 SIGKILL", "1 SIGKILL", kSweep};

// A round with a feature that holds the signals of its stop.
struct HeldRound {
    explicit HeldRound(std::chrono::milliseconds grace = kNever)
        : round([grace](LaunchOptions& options) { options.grace_period = grace; }) {
        round.features = Features({&feature});
        round.workers->start();
    }
    void await_log(const std::string& line) {
        run_until(round.context, [&] {
            return std::find(round.runner.log.begin(), round.runner.log.end(), line) !=
                   round.runner.log.end();
        });
    }
    bool has_said(const std::string& text) const {
        return std::any_of(round.words.begin(), round.words.end(),
                           [&](const std::string& line) { return line.find(text) != std::string::npos; });
    }

    HoldingFeature feature;
    StartedRound round;
};

}  // namespace

TEST_CASE("the first signal of a stop goes out, once, when the feature that holds it goes on") {
    HeldRound held;
    held.round.workers->stop({.signal = SIGINT, .received = SIGINT});
    CHECK(held.round.runner.take_log().empty());
    REQUIRE(held.feature.causes.size() == 1);
    CHECK(held.feature.causes[0].received == SIGINT);
    CHECK_FALSE(held.feature.causes[0].is_half_over);
    CHECK(held.feature.causes[0].longest == kLongestHold);
    held.feature.go_on();
    held.feature.go_on();
    CHECK(held.round.runner.take_log() == kInterrupted);
}

TEST_CASE("a feature that never goes on is not waited for longer than half of the grace") {
    HeldRound held(20ms);
    held.round.workers->stop({.signal = SIGINT});
    CHECK(held.feature.causes.at(0).longest == 10ms);
    CHECK(held.round.runner.take_log().empty());
    held.await_log("1 SIGCONT");
    CHECK(held.round.runner.take_log() == kInterrupted);
    SECTION("and without a grace not at all") {
        HeldRound hurried(0ms);
        hurried.round.workers->stop({.signal = SIGINT});
        CHECK(hurried.feature.causes.size() == 1);
        CHECK(hurried.round.runner.take_log() == kInterrupted);
    }
}

TEST_CASE("at half of the grace a feature may hold SIGTERM, which is the stop's second step") {
    HeldRound held(20ms);
    held.round.workers->stop({.signal = SIGINT, .reason = "time is over"});
    held.feature.go_on();
    held.round.runner.take_log();
    run_until(held.round.context, [&] { return held.feature.causes.size() == 2; });
    CHECK(held.round.runner.take_log().empty());
    CHECK(held.has_said("have not ended 0.01 s after SIGINT"));
    const StopCause& cause = held.feature.causes[1];
    CHECK(cause.is_half_over);
    CHECK(cause.signal == SIGTERM);
    CHECK(cause.reason == "time is over");
    CHECK(cause.longest == 5ms);
    SECTION("until it goes on") {
        held.feature.go_on();
        CHECK(held.round.runner.take_log() == Lines{"0 SIGTERM again", "1 SIGTERM again"});
    }
    SECTION("but SIGKILL is not held") {
        held.round.workers->kill_now();
        held.feature.go_on();
        CHECK(held.round.runner.take_log() == kKilled);
    }
}

TEST_CASE("what ends while the first signal is held has ended in the stop, and its leftovers are asked") {
    HeldRound held;
    held.round.workers->stop({.signal = SIGINT});
    held.round.runner.exit(0, Exited{1});
    CHECK(held.round.runner.take_log() == Lines{"0 SIGTERM leftovers"});
    held.round.runner.gone(0);
    SECTION("the rest is told") {
        held.feature.go_on();
        CHECK(held.round.runner.take_log() == Lines{"1 SIGINT auto", "1 SIGCONT"});
        held.round.end(1, Signaled{SIGINT, false});
    }
    SECTION("there is no rest, and the round is over") {
        // The terminal has sent it to all.
        held.round.end(1, Signaled{SIGINT, false});
        CHECK(held.round.runner.take_log() == Lines{"1 SIGTERM leftovers", kSweep});
        held.feature.go_on();
    }
    held.round.runner.swept();
    held.round.finish();
    held.feature.go_on();
    CHECK(held.round.failed.empty());
    for (const RankEnd& end : held.round.workers->ledger().ends())
        CHECK(end.manner == RankEnd::Manner::stopped);
    CHECK_FALSE(held.round.workers->ledger().failure());
    CHECK(held.feature.causes.size() == 1);
}

TEST_CASE("a worker that fails while the stop for another's failure is held changes nothing") {
    HeldRound held;
    held.round.end(1, Exited{7});
    CHECK(held.feature.causes.size() == 1);
    CHECK(held.round.runner.take_log() == Lines{"1 SIGKILL"});
    held.round.end(0, Signaled{SIGSEGV, true});
    CHECK(held.round.failed == std::vector<int>{5});
    CHECK(held.feature.causes.size() == 1);
    held.round.runner.swept();
    held.round.finish();
    CHECK(held.round.workers->ledger().failure()->rank == 5);
}

TEST_CASE("what cannot wait takes a held signal along") {
    HeldRound held;
    held.round.workers->stop({.signal = SIGINT});
    SECTION("a user in a hurry") {
        held.round.workers->hurry();
        CHECK(held.round.runner.take_log() == kInterrupted);
    }
    SECTION("SIGKILL") {
        held.round.workers->kill_now();
        CHECK(held.round.runner.take_log() == kKilled);
    }
    SECTION("another stop, which no feature is asked about") {
        held.round.workers->stop({.signal = SIGTERM});
        Lines both = kInterrupted;
        both.insert(both.end(), {"0 SIGTERM auto", "1 SIGTERM auto", "0 SIGCONT", "1 SIGCONT"});
        CHECK(held.round.runner.take_log() == both);
    }
    SECTION("others that wait for the end of these workers") {
        held.round.workers->hasten(kNever);
        CHECK(held.round.runner.take_log() == kInterrupted);
    }
    held.feature.go_on();
    CHECK(held.round.runner.take_log().empty());
    CHECK(held.feature.causes.size() == 1);
}

TEST_CASE("where others wait for the end of these workers, features hold the signal out of that time") {
    HeldRound held;
    held.round.workers->hasten(40ms);
    held.round.workers->stop({.signal = SIGINT});
    CHECK(held.feature.causes.at(0).longest <= 20ms);
    held.feature.when_asked = [&] { held.feature.go_on(); };
    held.await_log(kSweep);
    CHECK_FALSE(held.has_said("have not ended 0.04 s after SIGINT"));
}

TEST_CASE("workers that are being killed are not told to end, so no feature is asked") {
    HeldRound held;
    held.round.workers->kill_now();
    held.round.workers->stop({.signal = SIGINT});
    CHECK(held.feature.causes.empty());
    CHECK(held.round.runner.take_log() == kKilled);
}

TEST_CASE("a feature may go on after the round") {
    HeldRound held;
    held.round.workers->stop({.signal = SIGINT});
    held.round.workers.reset();
    held.round.runner.take_log();
    held.feature.go_on();
    CHECK(held.round.runner.take_log().empty());
}

}  // namespace ddprun
