#include "launcher/process/sweeper.hpp"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// A /proc of the test's own.
class FakeProc {
  public:
    // All of them are started at 99.
    void add(pid_t pid, const std::string& environment, char state = 'S') {
        const std::string number = std::to_string(pid);
        std::filesystem::create_directories(folder_.path() / number);
        folder_.file(number + "/stat",
                     number + " (sh) " + state + " 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0\n");
        folder_.file(number + "/environ", environment);
    }
    std::vector<pid_t> marked(const std::string& job, std::uint64_t since = 0) const {
        std::vector<pid_t> pids;
        for (const Survivor& survivor : find_survivors(job, since, folder_.path()))
            pids.push_back(survivor.pid);
        return pids;
    }

  private:
    TemporaryFolder folder_;
};

std::string entries(const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& entry : list) text += entry + '\0';
    return text;
}

}  // namespace

TEST_CASE("only a living process with just this job's mark counts") {
    FakeProc proc;
    proc.add(2, entries({"A=1", "DDPRUN_RUN_ID=job-1", "B=2"}));
    proc.add(3, entries({"DDPRUN_RUN_ID=job-12"}));
    proc.add(4, entries({"DDPRUN_RUN_ID=job-1"}), 'Z');
    proc.add(5, entries({"OTHER_DDPRUN_RUN_ID=job-1", "X=DDPRUN_RUN_ID=job-1"}));
    proc.add(6, "");
    CHECK(proc.marked("job-1") == std::vector<pid_t>{2});
    CHECK(proc.marked("job-12") == std::vector<pid_t>{3});
    CHECK(proc.marked("job").empty());
}

TEST_CASE("what is older than the launcher is none of its job, and its environment is not looked at") {
    FakeProc proc;
    proc.add(2, entries({"DDPRUN_RUN_ID=job-1"}));
    CHECK(proc.marked("job-1", 98) == std::vector<pid_t>{2});
    CHECK(proc.marked("job-1", 99) == std::vector<pid_t>{2});
    CHECK(proc.marked("job-1", 100).empty());
}

TEST_CASE("the mark is found wherever it stands in a long environment") {
    // Reads come in pieces of 16 KiB, and the mark may lie across a border.
    for (std::size_t before = 16 * 1024 - 40; before < 16 * 1024 + 10; ++before) {
        FakeProc proc;
        proc.add(2, entries({"PAD=" + std::string(before - 5, 'x'), "DDPRUN_RUN_ID=job-1", "B=2"}));
        INFO("bytes before the mark: " << before);
        CHECK(proc.marked("job-1").size() == 1);
    }
    FakeProc proc;
    proc.add(2, entries({"DDPRUN_RUN_ID=job-1", "PAD=" + std::string(300'000, 'x')}));
    proc.add(3, entries({"PAD=" + std::string(300'000, 'x'), "DDPRUN_RUN_ID=job-1"}));
    CHECK(proc.marked("job-1").size() == 2);
}

TEST_CASE("a real process is found by the environment it was started with") {
    WorkerSpec spec = stub_spec({"ready-then-wait"});
    spec.environment["DDPRUN_RUN_ID"] = "survivors-test-" + std::to_string(::getpid());
    StubRun run(spec);
    CHECK(run.out().line() == "ready");
    const auto found = find_survivors(spec.environment["DDPRUN_RUN_ID"]);
    REQUIRE(found.size() == 1);
    CHECK(found[0].pid == run.pid());
    CHECK(found[0].command == "worker_stub");
    CHECK(std::string("RS").find(found[0].state) != std::string::npos);
    run.runner().signal_worker(run.pid(), SIGKILL, SignalScope::group);
    run.wait();
    CHECK(find_survivors(spec.environment["DDPRUN_RUN_ID"]).empty());
}

TEST_CASE(
    "a child that was stopped to be looked at is not reaped, and its stop is left to the one that looks") {
    const pid_t child = ::fork();
    if (child == 0) {
        for (;;) ::pause();
    }
    REQUIRE(::ptrace(PTRACE_SEIZE, child, nullptr, nullptr) == 0);
    REQUIRE(::ptrace(PTRACE_INTERRUPT, child, nullptr, nullptr) == 0);
    while (read_process_stat(child)->state != 't') std::this_thread::yield();
    boost::asio::io_context context{1};
    Sweeper sweeper(context.get_executor(), {});
    sweeper.reap();
    siginfo_t stop{};
    CHECK(::waitid(P_PID, static_cast<id_t>(child), &stop, WSTOPPED | WNOHANG | __WALL) == 0);
    CHECK(stop.si_pid == child);
    ::kill(child, SIGKILL);
    siginfo_t end{};
    CHECK(::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT) == 0);
    sweeper.reap();
    CHECK(::waitpid(child, nullptr, 0) == -1);
    CHECK(errno == ECHILD);
}

}  // namespace ddprun
