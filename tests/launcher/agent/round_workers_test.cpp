#include "launcher/agent/round_workers.hpp"

#include <csignal>

#include "tests/launcher/agent/started_round.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
TEST_CASE("what is missing for the workers' output fails the round, and not the agent") {
    StartedRound round([](LaunchOptions& options) {
        options.output.files = true;
        options.output.redirects.everywhere = 3;
        options.output.log_dir = "/dev/null/logs";
    });
    round.workers->start();
    CHECK(round.failed == std::vector<int>{4});
    round.runner.swept();
    round.finish();
    const Failure failure = round.workers->ledger().failure().value();
    CHECK_THAT(failure.message, Catch::Contains("/dev/null/logs") && Catch::Contains("--log-dir"));
    CHECK(failure.exit_code == kExitSystem);
    CHECK(round.runner.started_specs.empty());
}

TEST_CASE("a round in which all is well") {
    StartedRound round;
    round.workers->start();
    REQUIRE(round.runner.started_specs.size() == 2);
    CHECK(round.runner.started_specs[1].environment.at("RANK") == "5");
    CHECK(round.runner.started_specs[1].environment.at("DDPRUN_ROUND") == "3");
    CHECK(round.workers->status().size() == 2);
    CHECK_THAT(round.words.back(), Catch::StartsWith("rank 5 of 6: pid "));
    round.end(0, Exited{0});
    round.end(1, Exited{0});
    round.runner.swept();
    round.finish();
    CHECK(round.failed.empty());
    CHECK(round.workers->ledger().all_zero());
    CHECK(round.workers->ledger().ends().size() == 2);
    CHECK_FALSE(round.workers->ledger().failure());
    CHECK(round.workers->gone() == WorkersGone{.round = 3, .all_zero = true});
}

TEST_CASE("the first failure is told once, and the evidence is there when all are gone") {
    StartedRound round;
    round.workers->start();
    round.end(1, Exited{7});
    CHECK(round.failed == std::vector<int>{5});
    CHECK(std::find(round.runner.log.begin(), round.runner.log.end(), "0 SIGTERM auto") !=
          round.runner.log.end());
    round.end(0, Signaled{SIGTERM, false});
    CHECK_FALSE(round.gone);
    round.runner.swept();
    round.finish();
    CHECK(round.failed.size() == 1);
    const auto failure = round.workers->ledger().failure();
    REQUIRE(failure);
    CHECK(failure->rank == 5);
    CHECK(failure->exit_code == 7);
    CHECK(failure->host == "gpu1");
    CHECK(round.workers->ledger().ends().back().manner == RankEnd::Manner::stopped);
    CHECK(round.workers->error_file_text(5).empty());
}

TEST_CASE("what keeps a round from starting is a failure, and the round ends") {
    SECTION("a program that cannot be started") {
        StartedRound round([](LaunchOptions& options) { options.workers[1].argv = {"refused"}; });
        round.workers->start();
        CHECK(round.failed == std::vector<int>{5});
        CHECK(round.workers->ledger().failure()->exit_code == kExitNotFound);
        round.end(0, Signaled{SIGKILL, false});
        round.runner.swept();
        round.finish();
        CHECK_FALSE(round.workers->ledger().all_zero());
    }
    SECTION("a flag that names a rank which the job does not have") {
        StartedRound round([](LaunchOptions& options) { options.tty_rank = 6; });
        round.workers->start();
        CHECK(round.runner.started() == 0);
        CHECK(round.failed == std::vector<int>{4});
        CHECK(round.workers->ledger().failure()->exit_code == kExitUsage);
        CHECK_THAT(round.workers->ledger().failure()->message, Catch::Contains("--tty 6"));
        round.runner.swept();
        round.finish();
    }
}

TEST_CASE("signals and stops reach the group") {
    StartedRound round;
    round.workers->start();
    round.workers->hear(NoticeSignal{.round = 3, .signal = SIGUSR1});
    round.workers->freeze();
    round.workers->thaw();
    round.workers->kill_now();
    const Lines log = round.runner.take_log();
    REQUIRE(log.size() >= 8);
    CHECK(log[0] == "0 SIGUSR1 auto");
    CHECK(log[2] == "0 SIGSTOP");
    CHECK(log[4] == "0 SIGCONT");
    CHECK(log[6] == "0 SIGKILL");
    CHECK(round.workers->ledger().is_settled());
}

}  // namespace ddprun
