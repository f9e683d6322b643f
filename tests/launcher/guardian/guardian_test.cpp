#include "launcher/guardian/guardian.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "launcher/process/process_table.hpp"
#include "launcher/process/sweeper.hpp"
#include "tests/launcher/guardian/guardian_fixture.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {

using namespace std::chrono_literals;

TEST_CASE("through a guardian the ends of workers arrive as they were") {
    GuardedRun run;
    for (int code : {0, 1, 127, 137, 255}) {
        run.start(Lines{"exit", std::to_string(code)});
        CHECK(run.take_events(2) == Lines{"exit code " + std::to_string(code), "gone"});
    }
    run.start(Lines{"signal", "11"});
    const Lines events = run.take_events(2);
    CHECK(events.at(0).rfind("signal 11 (SIGSEGV", 0) == 0);
    CHECK(run.sweep().killed == 0);
    run.runner.reset();
    CHECK(has_no_children());
}

TEST_CASE("through a guardian arguments, environment and streams are the worker's own") {
    GuardedRun run;
    WorkerSpec spec = stub_spec({"print-env", "print-stdin", "print-args", "", " a\nb", "\xff\x01"});
    spec.environment = {{"EMPTY", ""}, {"LONG", std::string(100'000, 'x')}, {"PATH", "/bin"}};
    CHECK(std::holds_alternative<Started>(run.start(spec)));
    CHECK(run.out->rest() == Lines{"EMPTY=", "LONG=" + std::string(100'000, 'x'), "PATH=/bin", "eof",
                                   "0:", "4: a", "b", "2:\xff\x01"});
    CHECK(run.take_events(2).front() == "exit code 0");

    // Not even the guardian's channel is left open in the worker.
    int given[2];
    REQUIRE(::pipe2(given, O_CLOEXEC) == 0);
    LineReader reader(given[0]);
    WorkerSpec streams = stub_spec({"fds", "session", "dispositions"});
    streams.standard_output = GivenDescriptor{given[1]};
    auto result = run.start(streams);
    ::close(given[1]);
    const std::string pid = std::to_string(std::get<Started>(result).pid);
    const Lines lines = reader.rest();
    CHECK(Lines(lines.begin(), lines.begin() + 3) == Lines{"0", "1", "2"});
    CHECK(lines.at(3) == "pid " + pid + " ppid " + std::to_string(below_us(kGuardianName).at(0)) + " pgid " +
                             pid + " sid " + pid);
    CHECK(lines.at(4) == "end");
    CHECK(run.out->rest().empty());
}

TEST_CASE("what the kernel takes as arguments passes the guardian, and what it refuses is refused alike") {
    GuardedRun run;
    // A megabyte in strings of 100 kB: the kernel limits each, and all of them by the stack's limit (8 MB as
    // a rule).
    Lines modes{"print-args"};
    for (int i = 0; i < 10; ++i) modes.push_back(std::string(100'000, 'a'));
    CHECK(std::holds_alternative<Started>(run.start(stub_spec(modes))));
    CHECK(run.out->rest().size() == 10);
    for (std::size_t length : {std::size_t{200'000}, kHuge}) {
        auto refused = run.start(stub_spec({"print-args", std::string(length, 'a')}));
        REQUIRE(std::holds_alternative<StartFailure>(refused));
        CHECK(std::get<StartFailure>(refused).error_number == E2BIG);
        CHECK(std::get<StartFailure>(refused).exit_code == kExitNotExecutable);
        CHECK_THAT(std::get<StartFailure>(refused).text,
                   Catch::StartsWith(std::string("cannot start '") + DDPRUN_WORKER_STUB +
                                     "': Argument list too long"));
    }
}

TEST_CASE("through a guardian a failed start is a value") {
    GuardedRun run;
    WorkerSpec spec = stub_spec({});
    spec.argv = {"./no/such/program"};
    auto result = run.start(spec);
    REQUIRE(std::holds_alternative<StartFailure>(result));
    CHECK(std::get<StartFailure>(result).exit_code == kExitNotFound);
    CHECK(std::get<StartFailure>(result).text == "cannot start './no/such/program': no such file");
    run.start(Lines{"exit", "3"});
    CHECK(run.take_events(2) == Lines{"exit code 3", "gone"});
}

TEST_CASE("through a guardian many start in order up to the first that cannot, and none behind it") {
    constexpr std::size_t kWorkers = 20;  // more than are ordered ahead
    for (const std::size_t bad : {std::size_t{0}, std::size_t{1}, std::size_t{9}, kWorkers - 1, kWorkers}) {
        INFO("the worker that cannot be started: " << bad);
        GuardedRun run;
        WorkerSpec worker = stub_spec({"ready-then-wait"});
        worker.standard_output = Stdio::null;
        std::vector<WorkerSpec> specs(kWorkers, worker);
        if (bad < kWorkers) specs[bad].argv = {"./no/such/program"};
        CallingObserver silent{[](const ExitStatus&) {}, [] {}};
        const auto results = run.runner->start_all(specs, silent);
        REQUIRE(results.size() == std::min(bad + 1, kWorkers));
        for (std::size_t i = 0; i < bad; ++i) CHECK(std::holds_alternative<Started>(results[i]));
        if (bad < kWorkers) CHECK(std::get<StartFailure>(results[bad]).exit_code == kExitNotFound);
        CHECK(below_us("worker_stub").size() == bad);
        // No answer is left that the next start would take for its own.
        run.start(Lines{"exit", "7"});
        CHECK(run.take_events(2) == Lines{"exit code 7", "gone"});
    }
    CHECK(has_no_children());
}

TEST_CASE("through a guardian signals reach the group, and a forgotten worker is not heard of again") {
    GuardedRun run;
    const pid_t worker = run.start(Lines{"print-signals"});
    CHECK(run.out->line() == "ready");
    run.runner->signal_worker(worker, SIGUSR1, SignalScope::group);
    CHECK(run.out->line() == "SIGUSR1");
    run.runner->forget(worker);
    run.runner->signal_worker(worker, SIGUSR2, SignalScope::group);  // no longer its worker
    const SweepResult result = run.sweep();
    CHECK(result.killed == 1);
    CHECK(run.out->rest().empty());
    CHECK(run.events.empty());
}

TEST_CASE("a sweep finds setsid grandchildren, daemons and stopped processes") {
    GuardedRun run;
    run.start(Lines{"setsid-grandchild", "daemon", "fork", "daemon", "end", "exit", "0"});
    std::vector<pid_t> left;
    for (int i = 0; i < 3; ++i) left.push_back(number_in(run.out->line()));
    CHECK(::kill(left.at(0), SIGSTOP) == 0);
    CHECK(run.take_events(2).back() == "gone");
    for (pid_t pid : left) CHECK(::kill(pid, 0) == 0);
    const SweepResult result = run.sweep();
    CHECK(result.killed == 3);
    CHECK(result.survivors.empty());
    CHECK(result.nothing_left);
    for (pid_t pid : left) CHECK(::kill(pid, 0) == -1);
    CHECK(run.sweep().killed == 0);
}

TEST_CASE("a sweep ends workers too, and tells their ends before its own") {
    GuardedRun run;
    run.start(Lines{"daemon", "ignore-term"});
    number_in(run.out->line());
    CHECK(run.out->line() == "ready");
    run.runner->sweep(60s, [&](const SweepResult& result) {
        run.events.push_back("killed " + std::to_string(result.killed));
    });
    CHECK(run.take_events(3) == Lines{"signal 9 (SIGKILL)", "gone", "killed 1"});
}

TEST_CASE("orphans leave no zombie while the job runs") {
    GuardedRun run;
    run.start(Lines{"orphans", "200", "ready-then-wait"});
    CHECK(run.out->line() == "ready");
    const auto processes = [] { return descendants(read_process_table().value(), ::getpid()).size(); };
    // The stub has reaped its children; whatever else there is, the guardian reaps, and then there are only
    // the keeper, the guardian and the stub.
    const auto deadline = std::chrono::steady_clock::now() + kHangGuard;
    while (processes() > 3 && std::chrono::steady_clock::now() < deadline) run.context.poll();
    CHECK(processes() == 3);
}

TEST_CASE("the guardian holds nothing of the agent's but its stderr") {
    int secret[2];
    REQUIRE(::pipe(secret) == 0);
    LineReader reader(secret[0]);
    GuardedRun run;
    ::close(secret[1]);
    CHECK(reader.rest().empty());
    run.start(Lines{"exit", "0"});  // now it is set up
    CHECK(run.take_events(2).front() == "exit code 0");
    const pid_t guardian = below_us(kGuardianName).at(0);
    const pid_t keeper = below_us(kKeeperName).at(0);
    CHECK(::getpgid(guardian) == guardian);
    CHECK(::getpgid(keeper) == keeper);
    for (const std::string& file : open_files(guardian)) {
        INFO(file);
        const bool expected = file == "0 /dev/null" || file == "1 /dev/null" || file.rfind("2 ", 0) == 0 ||
                              file.find("socket:") != std::string::npos ||
                              file.find("anon_inode:") != std::string::npos;
        CHECK(expected);
    }
    CHECK(open_files(keeper) == std::set<std::string>{"0 /dev/null", "1 /dev/null", "2 /dev/null"});
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGPIPE}) {
        ::kill(guardian, signal);
        ::kill(keeper, signal);
    }
    run.start(Lines{"exit", "4"});
    CHECK(run.take_events(2).front() == "exit code 4");
}

TEST_CASE("a sweep ends a child that sweeps itself last of all") {
    become_subreaper();
    int come[2];
    REQUIRE(::pipe2(come, O_CLOEXEC) == 0);
    const pid_t helper = ::fork();
    if (helper == 0) {
        for (int i = 0; i < 3; ++i) {
            if (::fork() == 0) break;
        }
        if (::write(come[1], "x", 1) != 1) ::_exit(1);
        while (true) ::pause();
    }
    char one = 0;
    for (int i = 0; i < 4; ++i) REQUIRE(::read(come[0], &one, 1) == 1);
    ::close(come[0]);
    ::close(come[1]);
    const auto below = descendants(read_process_table().value(), helper);
    REQUIRE(below.size() == 3);
    const auto is_alive = [](const ProcessStat& process) {
        const auto now = read_process_stat(process.pid);
        return now && !now->ended();
    };
    boost::asio::io_context context{1};
    int looks_at_helper = 0;
    // Asked of each process when it has been killed.
    const auto has_owner = [&](pid_t pid) {
        if (pid == helper) {
            ++looks_at_helper;
            CHECK(std::none_of(below.begin(), below.end(), is_alive));
        }
        return false;
    };
    Sweeper sweeper(context.get_executor(), {.has_owner = has_owner,
                                             .sweeps_itself = [&](pid_t pid) { return pid == helper; },
                                             .spared = {},
                                             .kill_at_once = {}});
    std::optional<SweepResult> result;
    sweeper.sweep(60s, [&](const SweepResult& found) { result = found; });
    run_until(context, [&] { return result.has_value(); });
    CHECK(looks_at_helper > 0);
    CHECK(result->killed == 4);
    CHECK(result->survivors.empty());
    CHECK(has_no_children());
}

TEST_CASE("children from before are spared") {
    const pid_t stranger = ::fork();
    if (stranger == 0) {
        ::pause();
        ::_exit(0);
    }
    {
        GuardedRun run;
        run.start(Lines{"daemon", "ready-then-wait"});
        number_in(run.out->line());
        CHECK(run.out->line() == "ready");
        ::kill(below_us(kGuardianName).at(0), SIGKILL);
        CHECK(run.take_events(3).size() == 3);
        CHECK(run.out->rest().empty());
        // What is ours is gone, but beside the stranger the kernel cannot say so.
        CHECK_FALSE(run.sweep().nothing_left);
    }
    CHECK(::waitpid(stranger, nullptr, WNOHANG) == 0);
    ::kill(stranger, SIGKILL);
    CHECK(::waitpid(stranger, nullptr, 0) == stranger);
}

TEST_CASE("workers have a cgroup each where one can be made, and none is left") {
    const auto own = own_cgroup_folder();
    const auto probe = own ? JobCgroup::make(*own) : std::nullopt;
    if (!probe) {
        WARN("skipped: no cgroup v2 can be made below " << (own ? own->string() : "any folder"));
        return;
    }
    probe->remove();
    std::filesystem::path folder;
    {
        GuardedRun run(own);
        CHECK(run.runner->worker_cgroup(1).empty());
        WorkerSpec spec = stub_spec({"daemon", "ready-then-wait"});
        spec.local_rank = 1;
        const pid_t worker = std::get<Started>(run.start(spec)).pid;
        const pid_t daemon = number_in(run.out->line());
        REQUIRE_FALSE(run.runner->worker_cgroup(1).empty());
        CHECK(run.runner->worker_cgroup(0).empty());
        folder = run.runner->worker_cgroup(1);
        std::ifstream file(folder / "cgroup.procs");
        std::set<pid_t> members;
        for (pid_t pid = 0; file >> pid;) members.insert(pid);
        CHECK(members == std::set<pid_t>{worker, daemon});
        CHECK(run.sweep().killed == 1);
    }
    CHECK_FALSE(std::filesystem::exists(folder.parent_path()));
    CHECK(has_no_children());
}

TEST_CASE(
    "the guardian kills the workers when their lease is over, and everything below them, and nothing "
    "before") {
    GuardedRun run;
    run.start(Lines{"setsid-grandchild", "ignore-term"});
    const pid_t grandchild = number_in(run.out->line());
    // As long as the end moves on, or there is none, nothing happens: not at the first end …
    const auto start = std::chrono::steady_clock::now();
    run.runner->set_lease(start + 3s);
    run.runner->set_lease(start + 1h);
    run.runner->set_lease(std::nullopt);
    run.runner->set_lease(start + 4s);
    // … which has long passed when the last one is over.
    CHECK(run.take_events(2) == Lines{"signal 9 (SIGKILL)", "gone"});
    CHECK(std::chrono::steady_clock::now() >= start + 4s);
    // The guardian goes on, without a lease. What is ordered now waits until it has done with the last one.
    run.runner->set_lease(std::nullopt);
    run.sweep();
    CHECK(::kill(grandchild, 0) == -1);
    run.start(Lines{"exit", "3"});
    CHECK(run.take_events(2) == Lines{"exit code 3", "gone"});
    CHECK(run.sweep().killed == 0);
}

TEST_CASE("the guardian stops the workers when their lease is over, and lets them go on when that does") {
    const auto is_stopped = [](pid_t pid) {
        const auto process = read_process_stat(pid);
        return process && process->state == 'T';
    };
    const auto await = [](const auto& condition) {
        for (const auto start = std::chrono::steady_clock::now(); !condition();) {
            REQUIRE(std::chrono::steady_clock::now() < start + 60s);
            // What another process's state is, is no event for us.
            std::this_thread::sleep_for(5ms);
        }
    };
    GuardedRun run;
    run.start(Lines{"setsid-grandchild", "ignore-term"});
    const pid_t grandchild = number_in(run.out->line());
    run.runner->set_lease(LeaseEnd(std::chrono::steady_clock::now(), 1h));
    await([&] { return is_stopped(grandchild); });
    // Whoever sends them on meanwhile is not heard.
    const pid_t worker = read_process_stat(grandchild)->parent;
    if (worker != 1) ::kill(worker, SIGCONT);
    run.runner->set_lease(LeaseEnd(std::chrono::steady_clock::now() + 1h, 1h));
    await([&] { return !is_stopped(grandchild); });
    SECTION("and kills them if it does not") {
        run.runner->set_lease(LeaseEnd(std::chrono::steady_clock::now(), 300ms));
    }
    SECTION("and kills them at once where nobody waits") {
        run.runner->set_lease(LeaseEnd(std::chrono::steady_clock::now(), 1h));
        await([&] { return is_stopped(grandchild); });
        run.runner->set_lease(std::chrono::steady_clock::now());
    }
    CHECK(run.take_events(2) == Lines{"signal 9 (SIGKILL)", "gone"});
}

}  // namespace ddprun
