#include "launcher/process/local_runner.hpp"

#include <sys/wait.h>

#include <csignal>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("every exit code and every deadly signal of a real process arrives as it was") {
    for (int code : {0, 1, 2, 9, 126, 127, 128, 137, 255}) {
        StubRun run({"exit", std::to_string(code)});
        CHECK(to_string(run.wait()) == "exit code " + std::to_string(code));
    }
    for (int signal :
         {SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGKILL, SIGSEGV, SIGPIPE, SIGTERM, SIGUSR1, SIGRTMIN + 1}) {
        INFO("signal " << signal);
        StubRun run({"signal", std::to_string(signal)});
        const ExitStatus status = run.wait();
        REQUIRE(std::holds_alternative<Signaled>(status));
        CHECK(std::get<Signaled>(status).signal == signal);
    }
}

TEST_CASE("the launcher inherited SIGCHLD ignored, and the ends still arrive") {
    void (*before)(int) = std::signal(SIGCHLD, SIG_IGN);
    StubRun run({"exit", "6"});
    CHECK(to_string(run.wait()) == "exit code 6");
    std::signal(SIGCHLD, before);
}

TEST_CASE("a signal reaches the whole process group") {
    StubRun run({"fork", "ready-then-wait", "end", "ready-then-wait"});
    CHECK(run.out().line() == "ready");
    CHECK(run.out().line() == "ready");
    run.runner().signal_worker(run.pid(), SIGTERM, SignalScope::group);
    CHECK(to_string(run.wait()) == "signal 15 (SIGTERM)");
    CHECK(run.out().rest().empty());
}

TEST_CASE("the group is gone only when the last process of it has ended, the worker's end comes before") {
    TemporaryFolder folder;
    const std::string go = (folder.path() / "go").string();
    boost::asio::io_context context;
    LocalRunner runner(context.get_executor());
    Lines events;
    CallingObserver observer{[&](const ExitStatus& status) { events.push_back(to_string(status)); },
                             [&] { events.push_back("gone"); }};
    std::optional<LineReader> out;
    {
        StdoutToPipe pipe;
        auto result = runner.start(
            stub_spec({"fork", "wait-for-file", go, "say", "last", "end", "exit", "5"}), observer);
        REQUIRE(std::holds_alternative<Started>(result));
        out.emplace(pipe.take_reader());
    }
    CHECK(events.empty());
    run_until(context, [&] { return !events.empty(); });
    // Some looks at the group, all in vain.
    for (int i = 0; i < 5; ++i) context.run_one();
    CHECK(events == Lines{"exit code 5"});
    folder.file("go", "");
    run_until(context, [&] { return events.size() == 2; });
    CHECK(events.back() == "gone");
    CHECK(out->rest() == Lines{"last"});
}

TEST_CASE("before a worker's end is told, what it has used is") {
    constexpr std::int64_t kHeld = 64 * 1024 * 1024;
    boost::asio::io_context context;
    LocalRunner runner(context.get_executor());
    Lines events;
    ResourceUse used;
    CallingObserver observer{[&](const ExitStatus& status) { events.push_back(to_string(status)); }, [] {},
                             [&](const ResourceUse& use) {
                                 events.push_back("used");
                                 used = use;
                             }};
    const auto result = runner.start(stub_spec({"hold", "64", "exit", "5"}), observer);
    REQUIRE(std::holds_alternative<Started>(result));
    run_until(context, [&] { return events.size() == 2; });
    CHECK(events == Lines{"used", "exit code 5"});
    CHECK(used.max_rss_bytes >= kHeld);
    CHECK(used.max_rss_bytes < 64 * kHeld);
    CHECK(used.user_us + used.system_us > 0);
    CHECK_FALSE(use_of_ended(std::get<Started>(result).pid));
}

TEST_CASE("a failed start is a value, and reports nothing later") {
    boost::asio::io_context context;
    LocalRunner runner(context.get_executor());
    WorkerSpec spec = stub_spec({});
    spec.argv = {"./no/such/program"};
    bool reported = false;
    CallingObserver observer{[&](const ExitStatus&) { reported = true; }, [&] { reported = true; }};
    auto result = runner.start(spec, observer);
    REQUIRE(std::holds_alternative<StartFailure>(result));
    CHECK(std::get<StartFailure>(result).exit_code == kExitNotFound);
    context.run();
    CHECK_FALSE(reported);
    runner.signal_worker(1, SIGTERM, SignalScope::group);  // not one of its workers: nothing happens
}

TEST_CASE("a forgotten worker gives the executor no work any more") {
    boost::asio::io_context context;
    bool reported = false;
    StdoutToPipe pipe;
    LocalRunner runner(context.get_executor());
    CallingObserver observer{[&](const ExitStatus&) { reported = true; }, [&] { reported = true; }};
    auto result = runner.start(stub_spec({"ready-then-wait"}), observer);
    REQUIRE(std::holds_alternative<Started>(result));
    const pid_t pid = std::get<Started>(result).pid;
    runner.forget(pid);
    runner.forget(pid);
    context.run();
    runner.signal_worker(pid, SIGKILL, SignalScope::group);  // no longer its worker
    CHECK(::waitpid(pid, nullptr, WNOHANG) == 0);
    CHECK_FALSE(reported);
}

TEST_CASE("the runner's end kills and reaps everything, without a word") {
    std::optional<LineReader> out;
    bool reported = false;
    CallingObserver observer{[&](const ExitStatus&) { reported = true; }, [&] { reported = true; }};
    boost::asio::io_context context;
    {
        StdoutToPipe pipe;
        LocalRunner runner(context.get_executor());
        for (int i = 0; i < 3; ++i) {
            auto result = runner.start(stub_spec({"fork", "ignore-term", "end", "ignore-term"}), observer);
            REQUIRE(std::holds_alternative<Started>(result));
        }
        out.emplace(pipe.take_reader());
        for (int i = 0; i < 6; ++i) CHECK(out->line() == "ready");
    }
    CHECK(has_no_children());
    context.run();
    CHECK_FALSE(reported);
    CHECK(out->rest().empty());
}

}  // namespace ddprun
