#include "launcher/round/worker_group.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>

#include "rendezvous/system/small_file.hpp"
#include "tests/launcher/round/worker_group_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

using namespace std::chrono_literals;

namespace {

// How many children of the process live.
std::ptrdiff_t children_of(pid_t parent) {
    const auto table = read_process_table().value();
    return std::count_if(table.begin(), table.end(), [parent](const ProcessStat& process) {
        return process.parent == parent && !process.ended();
    });
}

}  // namespace

TEST_CASE("a stop asks the workers, wakes stopped groups, asks all at half the grace, and kills at its end") {
    FakeRun run(WorkerGroup::kKillTimeout, SignalScope::leader);
    run.group->start_all(specs(2));
    run.group->stop(SIGINT, 2ms);
    CHECK(run.runner.take_log() == Lines{"0 SIGINT leader", "1 SIGINT leader", "0 SIGCONT", "1 SIGCONT"});
    run_until(run.context, [&] { return run.notices.size() == 2; });
    CHECK(run.runner.take_log() ==
          Lines{"0 SIGTERM again", "1 SIGTERM again", "0 SIGKILL", "1 SIGKILL", kSweep});
    CHECK(run.notices ==
          Lines{"ranks 10-11 have not ended 0.001 s after SIGINT; SIGKILL in 0.001 s (--grace 0.002)",
                "ranks 10-11 have not ended 0.002 s after SIGINT: SIGKILL (--grace 0.002)"});
    run.runner.exit(0, Signaled{SIGKILL, false});
    run.runner.exit(1, Exited{0});
    CHECK(run.ends.at(0).stopped_by_us);
    CHECK(run.ends.at(0).outlasted_grace);
    CHECK_FALSE(run.ends.at(1).outlasted_grace);
}

TEST_CASE(
    "workers that stood still with the launcher have their grace again, unless others wait for their end") {
    FakeRun run;
    run.group->start_all(specs(1));
    SECTION("an hour late") {
        // The timer fires an hour after the grace was to end.
        run.group->stop(SIGTERM, -1h);
        run.context.poll();
        CHECK(run.runner.take_log() == Lines{"0 SIGTERM auto", "0 SIGCONT"});
    }
    SECTION("but others wait") {
        run.group->hasten(-1h);
        run.group->stop(SIGTERM, 1h);
        run_until(run.context, [&] { return run.runner.log.size() > 2; });
        CHECK(run.runner.take_log() == Lines{"0 SIGTERM auto", "0 SIGCONT", "0 SIGKILL", kSweep});
    }
}

TEST_CASE("within the grace leftovers are asked to end, at its end they are killed") {
    FakeRun run;
    run.group->start_all(specs(2));
    CHECK(!run.group->kill_at());
    run.group->stop(SIGTERM, kNever);
    CHECK(time_until(run.group->kill_at().value()) > kNever / 2);
    run.group->hasten(1min);
    CHECK(time_until(run.group->kill_at().value()) <= 1min);
    CHECK(run.runner.take_log() == Lines{"0 SIGTERM auto", "1 SIGTERM auto", "0 SIGCONT", "1 SIGCONT"});
    run.runner.exit(0, Signaled{SIGTERM, false});
    run.runner.exit(1, Exited{0});
    run.runner.gone(1);
    CHECK(run.runner.take_log() == Lines{"0 SIGTERM leftovers", "1 SIGTERM leftovers"});
    CHECK(run.ends.size() == 2);
    CHECK(run.all_gone == 0);
    run.group->kill_now();
    CHECK(!run.group->kill_at());
    CHECK(run.runner.take_log() == Lines{"0 SIGKILL", kSweep});
    run.runner.gone(0);
    CHECK(run.all_gone == 0);
    run.runner.swept();
    CHECK(run.all_gone == 1);
    CHECK(run.notices.empty());
}

TEST_CASE("leftovers that outlast the grace are named by the rank that left them") {
    FakeRun run;
    run.group->start_all(specs(1));
    run.group->stop(SIGTERM, 2ms);
    run.runner.exit(0, Exited{0});
    run_until(run.context, [&] { return run.notices.size() == 2; });
    CHECK(run.notices[1] ==
          "processes that rank 10 left behind have not ended 0.002 s after SIGTERM: SIGKILL "
          "(--grace 0.002)");
    CHECK_FALSE(run.ends.at(0).outlasted_grace);
}

TEST_CASE("a second stop sends its signal, and the earlier end of grace counts") {
    FakeRun run;
    run.group->start_all(specs(1));
    run.group->stop(SIGTERM, kNever);
    run.group->stop(SIGINT, 2ms);
    CHECK(run.runner.take_log() == Lines{"0 SIGTERM auto", "0 SIGCONT", "0 SIGINT auto", "0 SIGCONT"});
    run.group->stop(SIGTERM, kNever);
    run.runner.take_log();
    run_until(run.context, [&] { return run.notices.size() == 2; });
    CHECK(run.runner.take_log() == Lines{"0 SIGTERM again", "0 SIGKILL", kSweep});
    run.group->stop(SIGTERM, 0ms);
    run.group->kill_now();
    CHECK(run.runner.take_log().empty());
}

TEST_CASE("a second interrupt is no end of the grace, and no grace needs no words") {
    FakeRun run;
    run.group->start_all(specs(1));
    run.group->stop(SIGINT, kNever);
    run.group->kill_now();
    run.runner.exit(0, Signaled{SIGKILL, false});
    CHECK_FALSE(run.ends.at(0).outlasted_grace);
    FakeRun hurried;
    hurried.group->start_all(specs(1));
    hurried.group->stop(SIGINT, 0ms);
    hurried.runner.take_log();
    run_until(hurried.context, [&] { return !hurried.runner.log.empty(); });
    CHECK(hurried.runner.take_log() == Lines{"0 SIGKILL", kSweep});
    CHECK(hurried.notices.empty());
}

TEST_CASE("a frozen group stands still until it is thawed") {
    FakeRun run;
    run.group->start_all(specs(2));
    run.group->freeze();
    run.group->thaw();
    CHECK(run.runner.take_log() == Lines{"0 SIGSTOP", "1 SIGSTOP", "0 SIGCONT", "1 SIGCONT"});
}

TEST_CASE("after the end neither stop nor kill does anything") {
    FakeRun run;
    run.group->start_all(specs(1));
    run.runner.exit(0, Exited{0});
    run.runner.gone(0);
    run.group->kill_now();
    run.runner.swept();
    run.runner.take_log();
    run.group->stop(SIGTERM, 0ms);
    run.group->kill_now();
    run.group->signal_all(SIGUSR1);
    run.context.run();
    CHECK(run.runner.take_log().empty());
    CHECK(run.all_gone == 1);
}

TEST_CASE("a forwarded signal is no stop") {
    FakeRun run;
    run.group->start_all(specs(2));
    run.group->signal_all(SIGUSR1);
    CHECK(run.runner.take_log() == Lines{"0 SIGUSR1 auto", "1 SIGUSR1 auto"});
    run.runner.exit(0, Exited{3});
    CHECK_FALSE(run.ends.at(0).stopped_by_us);
}

TEST_CASE("obedient workers end within the grace, with their own exit") {
    RealRun run;
    run.start({{"ready-then-wait"}, {"exit-zero-on-term"}});
    CHECK(run.out->line() == "ready");
    CHECK(run.out->line() == "ready");
    run.group->stop(SIGTERM, kNever);
    run.finish();
    REQUIRE(run.ends.size() == 2);
    for (const WorkerEnd& end : run.ends) {
        CHECK(end.stopped_by_us);
        CHECK(to_string(end.status) == (end.local_rank == 0 ? "signal 15 (SIGTERM)" : "exit code 0"));
    }
    CHECK(has_no_children());
}

TEST_CASE("a worker that ignores the signal is killed after the grace") {
    RealRun run;
    run.start({{"ignore-term"}});
    CHECK(run.out->line() == "ready");
    run.group->stop(SIGTERM, 20ms);
    run.finish();
    CHECK(to_string(run.ends.at(0).status) == "signal 9 (SIGKILL)");
    CHECK(run.ends.at(0).wall_time >= 20ms);
}

TEST_CASE("a worker that SIGSTOP holds still ends within the grace") {
    RealRun run;
    run.start({{"stop-itself"}});
    CHECK(run.out->line() == "ready");
    siginfo_t info;
    REQUIRE(::waitid(P_ALL, 0, &info, WSTOPPED | WNOWAIT) == 0);
    run.group->stop(SIGTERM, kNever);
    run.finish();
    CHECK(to_string(run.ends.at(0).status) == "signal 15 (SIGTERM)");
}

TEST_CASE("a program behind a wrapper has the rest of the grace to save its state") {
    TemporaryFolder folder;
    RealRun run;
    run.start({{"fork", "save-on-term", (folder.path() / "go").string(), "end", "ready-then-wait"}});
    CHECK(run.out->line() == "ready");
    CHECK(run.out->line() == "ready");
    run.on_end = [&](const WorkerEnd&) { folder.file("go", ""); };
    run.group->stop(SIGTERM, kNever);
    run.finish();
    CHECK(to_string(run.ends.at(0).status) == "signal 15 (SIGTERM)");
    CHECK(run.out->rest() == Lines{"saved"});
}

TEST_CASE("a stubborn program behind an obedient wrapper is killed after the grace") {
    RealRun run;
    run.start({{"fork", "ignore-term", "end", "ready-then-wait"}});
    CHECK(run.out->line() == "ready");
    CHECK(run.out->line() == "ready");
    run.group->stop(SIGTERM, 20ms);
    run.finish();
    CHECK(run.unkillable.empty());
    CHECK(run.out->rest().empty());
}

TEST_CASE("a program that handles the signal has its children until it has ended") {
    TemporaryFolder folder;
    for (const SignalScope scope : {SignalScope::automatic, SignalScope::leader, SignalScope::group}) {
        RealRun run(scope);
        run.start({{"fork", "ready-then-wait", "end", "save-on-term", (folder.path() / "go").string()}});
        CHECK(run.out->line() == "ready");
        CHECK(run.out->line() == "ready");
        const auto child_is_there = [&] { return children_of(run.group->running_workers().at(0).pid) == 1; };
        CHECK(child_is_there());
        // While it enters its wait for the signal nothing tells that it handles it.
        const std::string leader = "/proc/" + std::to_string(run.group->running_workers().at(0).pid);
        const std::string in_sigwait = std::to_string(SYS_rt_sigtimedwait) + ' ';
        while (!read_small_file(leader + "/syscall", 256).value().starts_with(in_sigwait)) ::sched_yield();
        run.group->stop(SIGTERM, kNever);
        if (scope == SignalScope::group) {
            while (child_is_there()) ::sched_yield();
        }
        CHECK(child_is_there() == (scope != SignalScope::group));
        folder.file("go", "");
        run.finish();
        CHECK(to_string(run.ends.at(0).status) == "exit code 0");
        CHECK(run.out->rest() == Lines{"saved"});
        std::filesystem::remove(folder.path() / "go");
    }
}

TEST_CASE("forwarded signals reach real workers") {
    RealRun run;
    run.start({{"print-signals"}});
    CHECK(run.out->line() == "ready");
    run.group->signal_all(SIGUSR1);
    CHECK(run.out->line() == "SIGUSR1");
    run.group->signal_all(SIGHUP);
    CHECK(run.out->line() == "SIGHUP");
    run.group->kill_now();
    run.finish();
    CHECK(run.ends.at(0).stopped_by_us);
}

TEST_CASE("an end by a signal that the group has not sent is not its doing, even during a stop") {
    struct Case {
        bool kills;
        ExitStatus status;
        bool stopped_by_us;
    };
    const std::vector<Case> cases = {
        {false, Signaled{SIGTERM, false}, true},  {false, Exited{1}, true},
        {false, Signaled{SIGKILL, false}, false}, {false, Signaled{SIGSEGV, true}, false},
        {true, Signaled{SIGKILL, false}, true},   {true, Signaled{SIGSEGV, true}, false}};
    for (const Case& one : cases) {
        FakeRun run;
        run.group->start_all(specs(1));
        run.group->stop(SIGTERM, 1h);
        if (one.kills) run.group->kill_now();
        run.runner.exit(0, one.status);
        CHECK(run.ends.at(0).stopped_by_us == one.stopped_by_us);
    }
}

}  // namespace ddprun
