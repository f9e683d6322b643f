#include "launcher/round/worker_group.hpp"

#include <sys/wait.h>

#include <csignal>

#include "tests/launcher/round/worker_group_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

using namespace std::chrono_literals;

// --- with workers on paper: what the group tells its runner, and when

TEST_CASE("each end is reported once, with its rank, and all gone once at the end") {
    FakeRun run;
    CHECK_FALSE(run.group->start_all(specs(2)).has_value());
    CHECK(run.group->running_workers().size() == 2);
    run.runner.exit(1, Exited{0});
    CHECK(run.group->running_workers().size() == 1);
    run.runner.gone(1);
    CHECK(run.all_gone == 0);
    run.runner.exit(0, Signaled{SIGSEGV, true});
    run.runner.take_log();
    run.runner.gone(0);
    CHECK(run.runner.take_log() == Lines{kSweep});
    CHECK(run.all_gone == 0);
    run.runner.swept();
    CHECK(run.all_gone == 1);
    CHECK(run.unkillable.empty());
    REQUIRE(run.ends.size() == 2);
    CHECK(run.ends[0].rank == 11);
    CHECK(run.ends[0].local_rank == 1);
    CHECK(run.ends[0].pid == FakeRunner::kFirstPid + 1);
    CHECK(to_string(run.ends[0].status) == "exit code 0");
    CHECK_FALSE(run.ends[0].stopped_by_us);
    CHECK(run.ends[1].rank == 10);
    CHECK(to_string(run.ends[1].status) == "signal 11 (SIGSEGV, core dumped)");
    CHECK(run.ends[1].wall_time >= 0ns);
}

TEST_CASE("what a worker leaves behind is killed when the worker has ended") {
    FakeRun run;
    run.group->start_all(specs(2));
    run.runner.exit(1, Exited{0});
    CHECK(run.runner.take_log() == Lines{"1 SIGKILL"});
}

TEST_CASE("what even SIGKILL did not end is named and given up") {
    FakeRun run(7ms);
    run.group->start_all(specs(2));
    run.group->kill_now();
    CHECK(run.runner.take_log() == Lines{"0 SIGKILL", "1 SIGKILL", "sweep 7"});
    run.runner.exit(0, Signaled{SIGKILL, false});
    run.runner.gone(0);
    run.runner.take_log();
    // The number of worker 0 was free again, and a process that it left behind has it now.
    run.runner.swept(
        {1,
         {{FakeRunner::kFirstPid + 1, 'D', "nfs_wait", "python3"}, {FakeRunner::kFirstPid, 'D', "", "x"}}});
    REQUIRE(run.unkillable.size() == 2);
    CHECK(run.unkillable[0].rank == 11);
    CHECK(run.unkillable[0].local_rank == 1);
    CHECK(run.unkillable[0].pid == FakeRunner::kFirstPid + 1);
    CHECK(to_string(run.unkillable[0]) == "rank 11, pid 1001 (python3, state D in nfs_wait),");
    CHECK(run.unkillable[1].rank == -1);
    CHECK(run.unkillable[1].local_rank == -1);
    CHECK(to_string(run.unkillable[1]) == "pid 1000 (x, state D), left behind by a worker,");
    CHECK(run.runner.take_log() == Lines{"1 forgotten"});
    CHECK(WorkerGroup::kKillTimeout == 15s);
}

TEST_CASE("a start failure ends the start, kills the workers before it and is returned") {
    FakeRun run;
    auto blueprints = specs(3);
    blueprints[1].argv = {"refused"};
    auto failure = run.group->start_all(blueprints);
    REQUIRE(failure.has_value());
    CHECK(failure->rank == 11);
    CHECK(failure->local_rank == 1);
    CHECK(failure->failure.exit_code == kExitNotFound);
    CHECK(failure->failure.text == "cannot start 'refused'");
    CHECK(run.runner.started() == 1);
    CHECK(run.runner.take_log() == Lines{"0 SIGKILL", kSweep});
    run.runner.exit(0, Signaled{SIGKILL, false});
    CHECK(run.ends.at(0).stopped_by_us);
    run.runner.gone(0);
    CHECK(run.all_gone == 0);
    run.runner.swept();
    CHECK(run.all_gone == 1);
}

TEST_CASE("workers may be started in several goes; a refusal, or giving up, ends those before") {
    for (const bool gives_up : {false, true}) {
        FakeRun run;
        auto more = specs(4);
        const std::vector<WorkerSpec> first{more.begin(), more.begin() + 2};
        more.erase(more.begin(), more.begin() + 2);
        CHECK_FALSE(run.group->start_all(first).has_value());
        CHECK(run.runner.take_log().empty());
        if (gives_up) {
            run.group->give_up_starting();
        } else {
            more[0].argv = {"refused"};
            CHECK(run.group->start_all(more)->rank == 12);
        }
        CHECK(run.runner.take_log() == Lines{"0 SIGKILL", "1 SIGKILL", kSweep});
    }
    FakeRun run;
    run.group->give_up_starting();
    CHECK(run.runner.take_log() == Lines{kSweep});
}

TEST_CASE("who ended is known by its rank, whichever go started it") {
    FakeRun run;
    const auto all = specs(3);
    run.group->start_all({all[0], all[1]});
    run.group->start_all({all[2]});
    run.runner.exit(2, Exited{5});
    REQUIRE(run.ends.size() == 1);
    CHECK(run.ends[0].rank == 12);
}

TEST_CASE("if nothing was started, all gone still comes, and not from inside the start") {
    FakeRun run;
    auto blueprints = specs(2);
    blueprints[0].argv = {"refused"};
    CHECK(run.group->start_all(blueprints).has_value());
    CHECK(run.all_gone == 0);
    CHECK(run.runner.take_log() == Lines{kSweep});
    run.runner.swept();
    CHECK(run.all_gone == 1);
    CHECK(run.ends.empty());
}

TEST_CASE("the group may be destroyed by its own callback") {
    FakeRun run;
    run.group->start_all(specs(2));
    run.on_end = [&](const WorkerEnd&) { run.group.reset(); };
    run.runner.exit(0, Exited{1});
    CHECK(run.runner.take_log() ==
          Lines{"0 SIGKILL", "0 SIGKILL", "1 SIGKILL", "0 forgotten", "1 forgotten"});
    run.runner.gone(0);
    run.runner.exit(1, Signaled{SIGKILL, false});
    run.runner.gone(1);
    run.context.run();
    CHECK(run.ends.size() == 1);
    CHECK(run.all_gone == 0);
}

// --- with real processes

TEST_CASE("real workers end on their own") {
    RealRun run;
    CHECK_FALSE(run.start({{"exit", "0"}, {"exit", "7"}, {"signal", "11"}}).has_value());
    run.finish();
    REQUIRE(run.ends.size() == 3);
    for (const WorkerEnd& end : run.ends) {
        const int expected[] = {0, 7, 139};
        CHECK(shell_code(end.status) == expected[end.local_rank]);
        CHECK_FALSE(end.stopped_by_us);
    }
    CHECK(has_no_children());
}

TEST_CASE("no process of a worker's group survives the worker") {
    TemporaryFolder folder;
    RealRun run;
    run.start(
        {{"fork", "ignore-term", "end", "wait-for-file", (folder.path() / "go").string(), "exit", "0"}});
    CHECK(run.out->line() == "ready");
    folder.file("go", "");
    run.finish();
    CHECK(to_string(run.ends.at(0).status) == "exit code 0");
    CHECK(run.out->rest().empty());
}

TEST_CASE("a real start failure stops the others and leaves nothing") {
    RealRun run;
    auto blueprints = specs(3);
    for (WorkerSpec& spec : blueprints) {
        spec.argv = {DDPRUN_WORKER_STUB, "ignore-term"};
        spec.environment = current_environment();
    }
    blueprints[2].argv = {"./no/such/program"};
    auto failure = run.start(blueprints);
    REQUIRE(failure.has_value());
    CHECK(failure->rank == 12);
    CHECK(failure->failure.exit_code == kExitNotFound);
    CHECK(failure->failure.text.find("'./no/such/program'") != std::string::npos);
    run.finish();
    CHECK(run.ends.size() == 2);
    CHECK(has_no_children());
}

TEST_CASE("a group that is destroyed early leaves nothing behind") {
    RealRun run;
    run.start({{"ignore-term"}, {"fork", "ignore-term", "end", "ignore-term"}});
    for (int i = 0; i < 3; ++i) CHECK(run.out->line() == "ready");
    run.group.reset();
    CHECK(run.out->rest().empty());
    run.context.run();
    CHECK(run.ends.empty());
    // The child of a worker became ours when the worker ended; who owns the runner has it reaped.
    run.runner.local.reset();
    CHECK(has_no_children());
}

}  // namespace ddprun
