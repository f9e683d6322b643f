#include "launcher/stop/stop_gate.hpp"

#include <boost/asio/io_context.hpp>
#include <optional>

#include "tests/launcher/agent/holding_feature.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

// A gate before a step that counts how often it was taken.
struct GateRun {
    bool hold(std::chrono::milliseconds until_kill = 1h) {
        return gate->hold({.signal = SIGTERM}, until_kill, [this] { ++taken; });
    }

    boost::asio::io_context context{1};
    HoldingFeature first, second;
    Features features{{&first, &second}};
    std::optional<StopGate> gate{std::in_place, context.get_executor(),
                                 [this](const StopCause& cause, const auto& go_on_of) {
                                     return features.before_stop(cause, go_on_of);
                                 }};
    int taken = 0;
};

}  // namespace

TEST_CASE("without a feature that holds it, a step is its caller's, and nothing is left to run") {
    GateRun run;
    run.first.holds = run.second.holds = false;
    CHECK_FALSE(run.hold());
    CHECK(run.first.causes.size() == 1);
    CHECK(run.second.causes.at(0).signal == SIGTERM);
    CHECK(run.second.causes.at(0).longest == kLongestHold);
    run.first.go_on();
    run.gate->take_now();
    CHECK(run.context.poll() == 0);
    CHECK(run.taken == 0);
}

TEST_CASE("a feature that goes on while it is asked does not hold the step, nor speak for the next") {
    GateRun run;
    run.first.when_asked = [&] { run.first.go_on(); };
    SECTION("both do") {
        run.second.when_asked = [&] { run.second.go_on(); };
        CHECK_FALSE(run.hold());
        CHECK(run.taken == 0);
    }
    SECTION("the next does not") {
        CHECK(run.hold());
        run.first.go_on();
        CHECK(run.taken == 0);
        run.second.go_on();
        CHECK(run.taken == 1);
    }
}

TEST_CASE("a step is taken once, when the last feature goes on") {
    GateRun run;
    CHECK(run.hold());
    run.second.go_on();
    run.second.go_on();
    CHECK(run.taken == 0);
    run.first.go_on();
    CHECK(run.taken == 1);
    run.first.go_on();
    run.gate->take_now();
    run.context.poll();
    CHECK(run.taken == 1);
    SECTION("and what a feature goes on with belongs to that step") {
        CHECK(run.hold());
        run.first.go_ons.at(0)();
        run.second.go_ons.at(0)();
        CHECK(run.taken == 1);
        run.first.go_on();
        run.second.go_on();
        CHECK(run.taken == 2);
    }
}

TEST_CASE("a feature that never goes on holds a step as long as the bound says") {
    GateRun run;
    CHECK(run.hold(2ms));
    CHECK(run.first.causes.at(0).longest == 1ms);
    run_until(run.context, [&] { return run.taken == 1; });
    run.first.go_on();
    run.second.go_on();
    CHECK(run.taken == 1);
    CHECK_FALSE(run.hold(0ms));
    CHECK(run.first.causes.size() == 2);
    run.first.go_on();
    run.second.go_on();
    CHECK(run.taken == 1);
}

TEST_CASE("a held step is taken early, dropped, or gone with its gate") {
    GateRun run;
    CHECK(run.hold());
    SECTION("by an impatient user") {
        run.gate->take_now();
        CHECK(run.taken == 1);
    }
    SECTION("by the next step") {
        CHECK(run.hold());
        CHECK(run.taken == 1);
        run.gate->drop();
    }
    SECTION("for good") { run.gate->drop(); }
    SECTION("with the gate") { run.gate.reset(); }
    const int before = run.taken;
    for (HoldingFeature* one : {&run.first, &run.second}) {
        for (const GoOn& go_on : one->go_ons) go_on();
    }
    run.context.poll();
    CHECK(run.taken == before);
}

TEST_CASE("what a feature does while it is asked may take or drop the step") {
    GateRun run;
    SECTION("taken") {
        run.first.when_asked = [&] { run.gate->take_now(); };
        CHECK(run.hold());
        CHECK(run.taken == 1);
    }
    SECTION("dropped") {
        run.first.when_asked = [&] { run.gate->drop(); };
        CHECK(run.hold());
        CHECK(run.taken == 0);
    }
    const int before = run.taken;
    run.first.go_on();
    run.second.go_on();
    CHECK(run.context.poll() == 0);
    CHECK(run.taken == before);
}

}  // namespace ddprun
