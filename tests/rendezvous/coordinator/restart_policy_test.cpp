#include "rendezvous/coordinator/restart_policy.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

// Without a signature: never the same failure.
RestartPolicy::RoundResult failed(int exit_code, std::chrono::milliseconds uptime = 60s,
                                  bool progressed = false) {
    Failure failure{.kind = Failure::Kind::worker_failed, .pid = 100, .exit_code = exit_code};
    return {failure, uptime, progressed};
}

RestartPolicy::RoundResult failed_by(const std::string& signature, bool progressed = false) {
    auto result = failed(1, 60s, progressed);
    result.signature = signature;
    return result;
}

}  // namespace

TEST_CASE("lists of exit codes") {
    using Ranges = std::vector<CodeRange>;
    CHECK(parse_code_ranges("2") == Ranges{{2, 2}});
    CHECK(parse_code_ranges("2,64-78,255") == Ranges{{2, 2}, {64, 78}, {255, 255}});
    for (const char* bad : {"", ",", "0", "256", "a", "2,", ",2", "2-1", "1-", "-1", "1-2-3", " 2", "2 "}) {
        INFO(bad);
        CHECK_FALSE(parse_code_ranges(bad));
    }
}

TEST_CASE("durations") {
    CHECK(parse_duration("5") == 5000ms);
    CHECK(parse_duration("0") == 0ms);
    CHECK(parse_duration("1.5s") == 1500ms);
    CHECK(parse_duration("250ms") == 250ms);
    CHECK(parse_duration("2m") == 120s);
    CHECK(parse_duration("1h") == 3600s);
    CHECK(parse_duration("2d") == 48h);
    for (const char* bad : {"", "s", "-1", "5x", "1e99", "nan", "inf", " 5", "5 s", "99999h", "116d"}) {
        INFO(bad);
        CHECK_FALSE(parse_duration(bad));
    }
}

TEST_CASE("without --max-restarts nothing is restarted, and nothing is said of it") {
    RestartPolicy policy({});
    auto decision = policy.decide(failed(1), 0);
    CHECK_FALSE(decision.restart);
    CHECK(decision.message.empty());
}

TEST_CASE("the budget is the job's") {
    RestartPolicy policy({.max_restarts = 5});
    for (int i = 1; i <= 5; ++i) {
        CHECK(policy.decide(failed(1), 0).restart);
        CHECK(policy.restarts() == i);
    }
    auto decision = policy.decide(failed(1), 0);
    CHECK_FALSE(decision.restart);
    CHECK_THAT(decision.message, Catch::Contains("all 5 of --max-restarts"));
    CHECK(policy.restarts() == 5);
}

TEST_CASE("what cannot be helped is final and uses nothing up") {
    RestartPolicy policy(
        {.max_restarts = 5, .restart_on = std::vector<CodeRange>{{1, 40}}, .no_restart_on = {{3, 4}}});
    CHECK_THAT(policy.decide(failed(3), 0).message, Catch::Contains("exit code 3 is among --no-restart-on"));
    CHECK_THAT(policy.decide(failed(41), 0).message,
               Catch::Contains("exit code 41 is not among --restart-on"));
    auto cancelled = failed(1);
    cancelled.cancelled = true;
    CHECK_FALSE(policy.decide(cancelled, 0).restart);
    CHECK(policy.decide(cancelled, 0).message.empty());
    auto signalled = failed(0);
    signalled.failure.kind = Failure::Kind::signalled;
    CHECK_FALSE(policy.decide(signalled, 0).restart);
    auto missing = failed(127);
    missing.failure.pid = 0;
    CHECK_THAT(policy.decide(missing, 0).message, Catch::Contains("cannot be started"));
    auto wrong_flag = failed(2);
    wrong_flag.failure.pid = 0;
    CHECK_THAT(policy.decide(wrong_flag, 0).message, Catch::Contains("command line is wrong"));
    CHECK(policy.restarts() == 0);
    CHECK(policy.decide(failed(5), 0).restart);

    RestartPolicy any({.max_restarts = 1});
    CHECK(any.decide(failed(127), 0).restart);  // the worker's own code
}

TEST_CASE("three restarts in a row that came to nothing are enough") {
    RestartPolicy policy({.max_restarts = 100, .min_uptime = 10s});
    for (int i = 0; i < 2; ++i) CHECK(policy.decide(failed(1, 1s), 0).restart);
    CHECK(policy.decide(failed(1, 11s), 0).restart);  // this round lasted: the count begins anew
    for (int i = 0; i < 2; ++i) CHECK(policy.decide(failed(1, 1s), 0).restart);
    auto decision = policy.decide(failed(1, 1s), 0);
    CHECK_FALSE(decision.restart);
    CHECK_THAT(decision.message, Catch::Contains("3 restarts in a row without progress"));
    CHECK_THAT(decision.message, Catch::Contains("--min-uptime"));
}

TEST_CASE("with a progress file only the file counts") {
    RestartPolicy policy({.max_restarts = 100, .has_progress_file = true});
    for (int i = 0; i < 20; ++i) CHECK(policy.decide(failed(1, 1ms, true), 0).restart);
    for (int i = 0; i < 2; ++i) CHECK(policy.decide(failed(1, 24h, false), 0).restart);
    auto decision = policy.decide(failed(1, 24h, false), 0);
    CHECK_FALSE(decision.restart);
    CHECK_THAT(decision.message, Catch::Contains("--progress-file"));
}

TEST_CASE("the same failure three times in a row is enough, however long its rounds lasted") {
    RestartPolicy policy({.max_restarts = 10});
    CHECK(policy.decide(failed_by("a"), 0).restart);
    CHECK(policy.decide(failed_by("a"), 0).restart);
    const auto decision = policy.decide(failed_by("a"), 0);
    CHECK_FALSE(decision.restart);
    CHECK(decision.message == "no restart: the same failure 3 times in a row (--same-failure 3)");
    CHECK(policy.restarts() == 2);
}

TEST_CASE("a row of the same failure is broken by another one, by a lost node and by progress") {
    for (const auto& other : {failed_by("b"), failed_by(""), failed_by("a", true)}) {
        RestartPolicy policy({.max_restarts = 100, .same_failure = 2});
        CHECK(policy.decide(failed_by("a"), 0).restart);
        CHECK(policy.decide(other, 0).restart);
        if (other.signature != "a") CHECK(policy.decide(failed_by("a"), 0).restart);
        CHECK_FALSE(policy.decide(failed_by("a"), 0).restart);
    }
    RestartPolicy getting_on({.max_restarts = 100, .has_progress_file = true});
    for (int i = 0; i < 20; ++i) CHECK(getting_on.decide(failed_by("a", true), 0).restart);
}

TEST_CASE("where the node that failed is left out, neither sameness nor haste is final; the budget is") {
    const auto without_it = [](const std::string& signature) {
        auto result = failed_by(signature);
        result.uptime = 1s;
        result.is_left_out = true;
        return result;
    };
    RestartPolicy policy({.max_restarts = 4, .same_failure = 2});
    CHECK(policy.decide(failed_by("a"), 0).restart);
    for (int i = 0; i < 3; ++i) CHECK(policy.decide(without_it("a"), 0).restart);
    CHECK_THAT(policy.decide(without_it("a"), 0).message, Catch::Contains("--max-restarts"));
    RestartPolicy row({.max_restarts = 10, .same_failure = 2});
    CHECK(row.decide(failed_by("a"), 0).restart);
    CHECK(row.decide(without_it("a"), 0).restart);
    CHECK_THAT(row.decide(failed_by("a"), 0).message, Catch::Contains("the same failure 3 times in a row"));
}

TEST_CASE("the user's program is stronger than the rules, but not than the budget and a signal") {
    using Answer = Judgement::Answer;
    const auto answered = [](Answer answer, RestartPolicy::RoundResult result) {
        result.answer = answer;
        result.uptime = 1s;
        return result;
    };
    for (const Answer wanted : {Answer::restart, Answer::exclude}) {
        RestartPolicy policy({.max_restarts = 5, .no_restart_on = {{1, 9}}, .same_failure = 2});
        auto missing = failed(127);
        missing.failure.pid = 0;
        CHECK(policy.decide(answered(wanted, missing), 0).restart);
        for (int i = 0; i < 4; ++i) CHECK(policy.decide(answered(wanted, failed_by("a")), 0).restart);
        CHECK(policy.decide(answered(wanted, failed(3)), 0).message ==
              "no restart: all 5 of --max-restarts are used up");
        RestartPolicy none({});
        CHECK(none.decide(answered(wanted, failed(3)), 0).message ==
              "no restart: --on-failure wants one, but --max-restarts is 0");
        auto cancelled = answered(wanted, failed(3));
        cancelled.cancelled = true;
        CHECK_FALSE(RestartPolicy({.max_restarts = 5}).decide(cancelled, 0).restart);
        auto signalled = answered(wanted, failed(3));
        signalled.failure.kind = Failure::Kind::signalled;
        CHECK_FALSE(RestartPolicy({.max_restarts = 5}).decide(signalled, 0).restart);
    }
    RestartPolicy policy({.max_restarts = 5});
    CHECK(policy.decide(answered(Answer::stop, failed(1)), 0).message ==
          "no restart: --on-failure says stop");
    CHECK(policy.decide(answered(Answer::none, failed(1)), 0).restart);
}

TEST_CASE("the same failure may come as often as the user allows") {
    RestartPolicy never({.max_restarts = 20, .same_failure = 0});
    for (int i = 0; i < 20; ++i) CHECK(never.decide(failed_by("a"), 0).restart);
    // What is no failure of the program is never the same.
    RestartPolicy lost({.max_restarts = 20});
    for (int i = 0; i < 20; ++i) CHECK(lost.decide(failed_by(""), 0).restart);
    // The budget is what the user has counted out.
    RestartPolicy spent({.max_restarts = 2});
    for (int i = 0; i < 2; ++i) CHECK(spent.decide(failed_by("a"), 0).restart);
    CHECK_THAT(spent.decide(failed_by("a"), 0).message,
               Catch::Contains("all 2 of --max-restarts are used up"));
}

TEST_CASE("pauses double up to the longest, and jitter takes away half at most") {
    RestartPolicy policy({.max_restarts = 100, .backoff_min = 1s, .backoff_max = 3s, .min_uptime = 10s});
    CHECK(policy.decide(failed(1, 1s), 0.999999).delay == 1000ms);
    CHECK(policy.decide(failed(1, 1s), 0.999999).delay == 2000ms);
    CHECK(policy.decide(failed(1, 1s), 0.999999).delay == 3000ms);
    CHECK(policy.decide(failed(1, 20s), 0).delay == 500ms);  // progress: back to the shortest
    RestartPolicy at_once({.max_restarts = 1});
    CHECK(at_once.decide(failed(1), 0.5).delay == 0ms);
}

TEST_CASE("a hang is restarted only where that was asked for, whatever its exit code") {
    auto hung = failed(124);
    hung.failure.kind = Failure::Kind::hang;
    RestartPolicy stops({.max_restarts = 2});
    const auto refused = stops.decide(hung, 0);
    CHECK((!refused.restart && refused.message == "no restart: --hang-timeout says stop"));
    RestartPolicy restarts({.max_restarts = 1, .no_restart_on = {{124, 124}}, .after_hang = true});
    CHECK(restarts.decide(hung, 0).restart);
    CHECK(restarts.decide(hung, 0).message == "no restart: all 1 of --max-restarts are used up");
    // The user's program is stronger, with a restart that is left.
    hung.answer = Judgement::Answer::restart;
    CHECK(stops.decide(hung, 0).restart);
    RestartPolicy none({.after_hang = true});
    hung.answer = Judgement::Answer::none;
    CHECK((!none.decide(hung, 0).restart && none.decide(hung, 0).message.empty()));
}

}  // namespace ddprun
