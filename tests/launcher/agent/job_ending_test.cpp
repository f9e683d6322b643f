#include "launcher/agent/job_ending.hpp"

#include <csignal>
#include <limits>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

Failure failure_of(Failure::Kind kind, int exit_code, int signal) {
    Failure failure{.kind = kind};
    failure.exit_code = exit_code;
    failure.signal = signal;
    return failure;
}

}  // namespace

TEST_CASE("the coordinator's last word decides, then what this node knows") {
    JobEnding ending;
    ending.joined = true;
    ending.signal = SIGTERM;
    CHECK(verdict_of(ending).exit_code == 128 + SIGTERM);
    ending.first_failure = failure_of(Failure::Kind::worker_failed, 7, 0);
    CHECK(verdict_of(ending).exit_code == 7);
    ending.first_failure = failure_of(Failure::Kind::signalled, 0, SIGINT);
    CHECK(verdict_of(ending).exit_code == 128 + SIGINT);
    ending.refusal = Refused{"no", kExitNotAdmitted};
    CHECK(verdict_of(ending).exit_code == kExitNotAdmitted);
    CHECK(verdict_of(ending).is_said);
    Finish finish{.exit_code = 3};
    finish.message = "so it is";
    ending.finish = finish;
    CHECK(verdict_of(ending).exit_code == 3);
    CHECK(verdict_of(ending).message == "so it is");
}

TEST_CASE("no launcher ends with 0, or what a parent reads as 0, where something failed") {
    const auto code_of = [](auto tell) {
        JobEnding ending;
        ending.joined = true;
        tell(ending);
        return verdict_of(ending).exit_code;
    };
    for (const int code : {0, 256, -256, 512, std::numeric_limits<int>::max()}) {
        INFO(code);
        const Failure failure = failure_of(Failure::Kind::worker_failed, code, 0);
        CHECK(code_of([&](JobEnding& end) { end.first_failure = failure; }) == kExitInternal);
        CHECK(code_of([&](JobEnding& end) { end.refusal = Refused{"no", code}; }) == kExitInternal);
        CHECK(code_of([&](JobEnding& end) { end.finish = Finish{.exit_code = code, .cause = failure}; }) ==
              kExitInternal);
        const int bare = code_of([&](JobEnding& end) { end.finish = Finish{.exit_code = code}; });
        CHECK(bare == (code == 0 ? 0 : kExitInternal));
    }
    for (const int signal : {0, 128, -128, std::numeric_limits<int>::max()}) {
        const Failure failure = failure_of(Failure::Kind::signalled, 0, signal);
        CHECK(code_of([&](JobEnding& end) { end.first_failure = failure; }) == kExitInternal);
    }
}

TEST_CASE("an agent that was signalled says whether workers had been started") {
    JobEnding ending;
    ending.signal = SIGTERM;
    CHECK_THAT(verdict_of(ending).message, Catch::Contains("before any worker was started"));
    ending.joined = true;
    CHECK_THAT(verdict_of(ending).message,
               !Catch::Contains("before any worker was started") && Catch::Contains("node 0 did not say"));
}

TEST_CASE("an agent whose time is over does not speak of a signal") {
    JobEnding ending;
    ending.signal = SIGTERM;
    ending.signal_reason = "the time limit has passed";
    CHECK(verdict_of(ending).exit_code == 128 + SIGTERM);
    CHECK(verdict_of(ending).message == "the time limit has passed before any worker was started");
}

TEST_CASE("nodes that nobody could ask are in the report and in the result") {
    JobEnding ending;
    ending.joined = true;
    ending.first_failure = failure_of(Failure::Kind::node_lost, kExitUnavailable, 0);
    ending.unknown_nodes = {"node 1 (gpu07)"};
    ending.unknown_node_count = 2;
    const Verdict verdict = verdict_of(ending);
    CHECK_THAT(failure_report(report_facts(ending, verdict, "train")),
               Catch::EndsWith("survivors: 0, unknown on node 1 (gpu07) and 1 more"));
    LaunchOptions options;
    options.entry_name = "train";
    CHECK(job_result(ending, verdict, options).sentence == "train was stopped, because node 0 was lost");
    const std::string result = to_json(job_result(ending, verdict, options));
    CHECK_THAT(result, Catch::Contains(R"x("unknown_nodes":["node 1 (gpu07)"],"unknown_node_count":2)x"));
}

}  // namespace ddprun
