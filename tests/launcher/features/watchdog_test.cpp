#include "launcher/features/watchdog.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/launcher/agent/fake_agent.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

// A child that waits for a signal; killed and reaped with its owner.
class WaitingChild {
  public:
    WaitingChild() : pid_(::fork()) {
        if (pid_ == 0)
            for (;;) ::pause();
    }
    WaitingChild(const WaitingChild&) = delete;
    WaitingChild& operator=(const WaitingChild&) = delete;
    ~WaitingChild() {
        if (pid_ > 0) end_by(SIGKILL);
    }

    pid_t pid() const { return pid_; }
    // The signal that has ended it, waited for; 0 for another end.
    int ending_signal() {
        int status = 0;
        ::waitpid(std::exchange(pid_, -1), &status, 0);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }
    int end_by(int signal) {
        ::kill(pid_, signal);
        return ending_signal();
    }

  private:
    pid_t pid_;
};

using Expired = std::vector<std::pair<std::string, pid_t>>;

// A watchdog, and workers that write to it.
struct TimerWatch {
    explicit TimerWatch(std::vector<pid_t> pids) : workers(std::move(pids)) {
        agent.given.environment["TMPDIR"] = folder.path().string();
        for (const pid_t pid : workers) {
            const int rank = static_cast<int>(agent.now.workers.size());
            agent.now.workers.push_back({.rank = rank, .local_rank = rank, .pid = pid});
        }
        watchdog->began(agent);
        RoundAdditions variables;
        watchdog->round_begins({}, variables);
        path = variables.over.at(kTimerFileVariable);
    }

    void write(const std::string& line) {
        const OwnedDescriptor pipe(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
        require(pipe && ::write(pipe.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()),
                "the pipe takes nothing");
    }
    void set(pid_t pid, const std::string& scope, std::chrono::milliseconds time, int signal = SIGKILL) {
        const auto due = std::chrono::system_clock::now() + time;
        write(fmt::format(
            R"({{"version": 1, "pid": {}, "scope_id": "{}", "expiration_time": {}, "signal": {}}})"
            "\n",
            pid, scope, std::chrono::duration<double>(due.time_since_epoch()).count(), signal));
    }
    // All that was written was read when this warning has come.
    void drain() {
        const std::size_t before = warnings.size();
        write("end of the test\n");
        run_until(context, [&] { return warnings.size() > before; });
    }

    std::string cause_of(pid_t worker) {
        Failure failure{.pid = worker};
        watchdog->worker_failed(failure);
        return failure.message;
    }
    // Scope, and the worker; 0: none.
    Expired expired() const {
        Expired all;
        for (const AgentNews& news : agent.told) {
            const auto& timer = std::get<TimerExpired>(news);
            all.emplace_back(timer.scope,
                             timer.rank < 0 ? 0 : workers.at(static_cast<std::size_t>(timer.rank)));
        }
        return all;
    }

    TemporaryFolder folder;
    boost::asio::io_context context{1};
    std::vector<pid_t> workers;
    FakeAgent agent{context.get_executor()};
    std::vector<std::string>& warnings = agent.said;
    std::string path;
    std::unique_ptr<Feature> watchdog = [this] {
        LauncherLog log;
        agent.given.features.of<WatchdogOptions>().place = "";
        FeatureInputs inputs{.options = agent.given, .log = log};
        return make_watchdog(inputs);
    }();
};

}  // namespace

TEST_CASE("watchdog: a worker whose timer expires gets its signal, and the cause is known") {
    WaitingChild worker;
    WaitingChild other;
    TimerWatch watched({worker.pid(), other.pid()});
    watched.set(worker.pid(), "step", 10ms, SIGUSR1);
    watched.set(other.pid(), "step", 1h);
    run_until(watched.context, [&] { return !watched.cause_of(worker.pid()).empty(); });
    CHECK(watched.expired() == Expired{{"step", worker.pid()}});
    // Of what was left when the request was read.
    CHECK_THAT(watched.cause_of(worker.pid()), Catch::StartsWith("its watchdog timer 'step' of ") &&
                                                   Catch::EndsWith(" s expired, and ddprun sent SIGUSR1"));
    CHECK(worker.ending_signal() == SIGUSR1);
    CHECK(watched.cause_of(other.pid()).empty());
    CHECK(watched.warnings.empty());
}

TEST_CASE("watchdog: nobody is sent anything whose timer was taken back, or who is none of the workers'") {
    WaitingChild worker;
    WaitingChild stranger;
    TimerWatch watched({worker.pid()});
    watched.set(worker.pid(), "step", 0ms);
    // It is in the pipe before the first is looked at.
    watched.write(
        fmt::format(R"({{"version": 1, "pid": {}, "scope_id": "step", "expiration_time": -1, "signal": 0}})"
                    "\n",
                    worker.pid()));
    watched.set(stranger.pid(), "step", 0ms);
    run_until(watched.context, [&] { return !watched.warnings.empty(); });
    CHECK_THAT(watched.warnings.front(), Catch::Contains(std::to_string(stranger.pid())) &&
                                             Catch::Contains("none of this node's workers"));
    CHECK(watched.expired() == Expired{{"step", 0}});
    CHECK(worker.end_by(SIGUSR2) == SIGUSR2);
    CHECK(stranger.end_by(SIGUSR2) == SIGUSR2);
}

TEST_CASE("watchdog: a timer without a signal ends nobody, and is told of") {
    WaitingChild worker;
    TimerWatch watched({worker.pid()});
    watched.set(worker.pid(), "only told", 0ms, 0);
    run_until(watched.context, [&] { return !watched.expired().empty(); });
    CHECK(watched.expired() == Expired{{"only told", worker.pid()}});
    CHECK(watched.cause_of(worker.pid()).empty());
    CHECK(watched.warnings.empty());
    CHECK(worker.end_by(SIGUSR2) == SIGUSR2);
}

TEST_CASE("watchdog: of lines that are none one is told of, and those after it are read") {
    WaitingChild worker;
    TimerWatch watched({worker.pid()});
    watched.write("not JSON\nnor this\n");
    watched.set(0x3ffffff, "of nobody", 0ms);
    watched.set(worker.pid(), "step", 0ms);
    CHECK(worker.pid() > 0);
    run_until(watched.context, [&] { return !watched.cause_of(worker.pid()).empty(); });
    CHECK(worker.ending_signal() == SIGKILL);
    REQUIRE(watched.warnings.size() == 1);
    CHECK_THAT(watched.warnings.front(),
               Catch::Contains("passed over") && Catch::Contains("begins with: not JSON"));
}

TEST_CASE("watchdog: no timer runs on while the workers stand still") {
    WaitingChild worker;
    TimerWatch watched({worker.pid()});
    watched.watchdog->learnt(launch::Suspended{});
    watched.set(worker.pid(), "step", 0ms);
    watched.drain();
    CHECK(watched.cause_of(worker.pid()).empty());
    watched.watchdog->learnt(launch::Resumed{});
    run_until(watched.context, [&] { return !watched.cause_of(worker.pid()).empty(); });
    CHECK(worker.ending_signal() == SIGKILL);
}

TEST_CASE("watchdog: once the workers are told to end, it takes what they say and ends nobody") {
    WaitingChild worker;
    TimerWatch watched({worker.pid()});
    watched.watchdog->learnt(
        StateChanged{AgentState::running, AgentEvent::stop_ordered, AgentState::stopping});
    watched.set(worker.pid(), "saving", 0ms);
    watched.drain();
    CHECK(watched.cause_of(worker.pid()).empty());
    CHECK(worker.end_by(SIGUSR2) == SIGUSR2);
}

}  // namespace ddprun
