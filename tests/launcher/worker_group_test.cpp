#include "launcher/worker_group.hpp"

#include <sys/wait.h>

#include <csignal>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Lines = std::vector<std::string>;
using namespace std::chrono_literals;

// Far away: a test that waits for it runs into the hang guard.
constexpr std::chrono::hours kNever{1};
const std::string kSweep = "sweep 15000";

// A runner whose workers live only on paper; the test plays their ends.
class FakeRunner final : public ProcessRunner {
  public:
    static constexpr pid_t kFirstPid = 1000;

    std::variant<Started, StartFailure> start(const WorkerSpec& spec, WorkerEvents events) override {
        if (spec.argv.front() == "refused")
            return StartFailure{ENOENT, "cannot start 'refused'", kExitNotFound};
        workers_.push_back(std::move(events));
        return Started{kFirstPid + static_cast<pid_t>(workers_.size()) - 1};
    }
    void signal_group(pid_t worker, int signal) override {
        log.push_back(std::to_string(worker - kFirstPid) + " " + signal_text(signal));
    }
    void sweep(std::chrono::milliseconds patience, std::function<void(const SweepResult&)> done) override {
        log.push_back("sweep " + std::to_string(patience.count()));
        swept_ = std::move(done);
    }
    void forget(pid_t worker) override { log.push_back(std::to_string(worker - kFirstPid) + " forgotten"); }
    std::filesystem::path worker_cgroup(int) const override { return {}; }

    void exit(std::size_t worker, ExitStatus status) { workers_.at(worker).on_exit(status); }
    void gone(std::size_t worker) { workers_.at(worker).on_group_gone(); }
    void swept(const SweepResult& result = {}) { std::exchange(swept_, {})(result); }
    std::size_t started() const { return workers_.size(); }

    Lines take_log() { return std::exchange(log, {}); }

    Lines log;

  private:
    std::vector<WorkerEvents> workers_;
    std::function<void(const SweepResult&)> swept_;
};

std::vector<WorkerSpec> specs(std::size_t count) {
    std::vector<WorkerSpec> result(count);
    for (std::size_t i = 0; i < count; ++i) {
        result[i].argv = {"program"};
        result[i].local_rank = static_cast<int>(i);
        result[i].rank = 10 + static_cast<int>(i);
    }
    return result;
}

// A group, what it reported, and a runner of either kind.
template <typename Runner>
class GroupRun {
  public:
    template <typename... Arguments>
    explicit GroupRun(WorkerGroup::Duration kill_patience, Arguments&&... arguments)
        : runner(std::forward<Arguments>(arguments)...),
          group(std::in_place, context.get_executor(), runner,
                WorkerGroupEvents{[this](const WorkerEnd& end) {
                                      ends.push_back(end);
                                      if (on_end) on_end(end);
                                  },
                                  [this](const std::vector<UnkillableWorker>& left) {
                                      unkillable = left;
                                      ++all_gone;
                                  }},
                kill_patience) {}

    // Runs until nothing of the group is left.
    void finish() {
        run_until(context, [this] { return all_gone > 0; });
    }

    boost::asio::io_context context{1};
    Runner runner;
    std::vector<WorkerEnd> ends;
    std::vector<UnkillableWorker> unkillable;
    int all_gone = 0;
    std::function<void(const WorkerEnd&)> on_end;
    std::optional<WorkerGroup> group;
};

struct FakeRun : GroupRun<FakeRunner> {
    explicit FakeRun(WorkerGroup::Duration kill_patience = WorkerGroup::kKillPatience)
        : GroupRun(kill_patience) {}
};

// LocalRunner needs the executor, which is a member of the same object.
struct OwnRunner : ProcessRunner {
    std::optional<LocalRunner> local;
    std::variant<Started, StartFailure> start(const WorkerSpec& spec, WorkerEvents events) override {
        return local->start(spec, std::move(events));
    }
    void signal_group(pid_t worker, int signal) override { local->signal_group(worker, signal); }
    void sweep(std::chrono::milliseconds patience, std::function<void(const SweepResult&)> done) override {
        local->sweep(patience, std::move(done));
    }
    void forget(pid_t worker) override { local->forget(worker); }
    std::filesystem::path worker_cgroup(int local_rank) const override {
        return local->worker_cgroup(local_rank);
    }
};

struct RealRun : GroupRun<OwnRunner> {
    RealRun() : GroupRun(WorkerGroup::kKillPatience) { runner.local.emplace(context.get_executor()); }

    // One worker for each list of the stub's modes; their output goes to one pipe.
    std::optional<WorkerStartFailure> start(const std::vector<Lines>& modes) {
        std::vector<WorkerSpec> blueprints = specs(modes.size());
        for (std::size_t i = 0; i < modes.size(); ++i) {
            WorkerSpec spec = stub_spec(modes[i]);
            blueprints[i].argv = spec.argv;
            blueprints[i].environment = spec.environment;
        }
        return start(blueprints);
    }
    std::optional<WorkerStartFailure> start(const std::vector<WorkerSpec>& blueprints) {
        StdoutToPipe pipe;
        auto failure = group->start_all(blueprints);
        out.emplace(pipe.take_reader());
        return failure;
    }

    std::optional<LineReader> out;
};

}  // namespace

// --- with workers on paper: what the group tells its runner, and when
// ------------------------------------------

TEST_CASE("each end is reported once, with its rank, and all gone once at the end") {
    FakeRun run;
    CHECK_FALSE(run.group->start_all(specs(2)).has_value());
    CHECK(run.group->running() == 2);
    run.runner.exit(1, Exited{0});
    CHECK(run.group->running() == 1);
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

TEST_CASE("a stop signals every group, wakes stopped ones, and kills after the grace") {
    FakeRun run;
    run.group->start_all(specs(2));
    run.group->stop(SIGINT, 1ms);
    CHECK(run.runner.take_log() == Lines{"0 SIGINT", "1 SIGINT", "0 SIGCONT", "1 SIGCONT"});
    run_until(run.context, [&] { return !run.runner.log.empty(); });
    CHECK(run.runner.take_log() == Lines{"0 SIGKILL", "1 SIGKILL", kSweep});
    run.runner.exit(0, Signaled{SIGKILL, false});
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

TEST_CASE("within the grace leftovers are left in peace, at its end they are killed") {
    FakeRun run;
    run.group->start_all(specs(2));
    run.group->stop(SIGTERM, kNever);
    run.runner.take_log();
    run.runner.exit(0, Signaled{SIGTERM, false});
    run.runner.exit(1, Exited{0});
    run.runner.gone(1);
    CHECK(run.runner.take_log().empty());
    CHECK(run.ends.size() == 2);
    CHECK(run.all_gone == 0);
    run.group->kill_now();
    CHECK(run.runner.take_log() == Lines{"0 SIGKILL", kSweep});
    run.runner.gone(0);
    CHECK(run.all_gone == 0);
    run.runner.swept();
    CHECK(run.all_gone == 1);
}

TEST_CASE("a second stop sends its signal, and the earlier end of grace counts") {
    FakeRun run;
    run.group->start_all(specs(1));
    run.group->stop(SIGTERM, kNever);
    run.group->stop(SIGINT, 1ms);
    CHECK(run.runner.take_log() == Lines{"0 SIGTERM", "0 SIGCONT", "0 SIGINT", "0 SIGCONT"});
    run.group->stop(SIGTERM, kNever);
    run.runner.take_log();
    run_until(run.context, [&] { return !run.runner.log.empty(); });
    CHECK(run.runner.take_log() == Lines{"0 SIGKILL", kSweep});
    run.group->stop(SIGTERM, 0ms);
    run.group->kill_now();
    CHECK(run.runner.take_log().empty());
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
    CHECK(run.runner.take_log() == Lines{"0 SIGUSR1", "1 SIGUSR1"});
    run.runner.exit(0, Exited{3});
    CHECK_FALSE(run.ends.at(0).stopped_by_us);
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
    CHECK(WorkerGroup::kKillPatience == 15s);
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
    CHECK(run.runner.take_log() == Lines{"0 SIGKILL", "0 SIGKILL", "1 SIGKILL"});
    run.runner.gone(0);
    run.runner.exit(1, Signaled{SIGKILL, false});
    run.runner.gone(1);
    run.context.run();
    CHECK(run.ends.size() == 1);
    CHECK(run.all_gone == 0);
}

// --- with real processes
// ------------------------------------------------------------------------------------------

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
