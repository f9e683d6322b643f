#include "launcher/features/watchdog.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

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
        watchdog.emplace(context.get_executor(), std::make_unique<TimerPipe>("", folder.path().string()),
                         WatchdogEvents{[this] { return workers; },
                                        [this](const ExpiredTimer& timer, std::optional<pid_t> worker) {
                                            expired.emplace_back(timer.scope, worker.value_or(0));
                                        },
                                        [this](const std::string& text) { warnings.push_back(text); }});
        watchdog->start();
    }

    void write(const std::string& line) {
        const OwnedDescriptor pipe(::open(watchdog->path().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
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

    TemporaryFolder folder;
    boost::asio::io_context context{1};
    std::vector<pid_t> workers;
    std::vector<std::string> warnings;
    Expired expired;  // scope, and the worker; 0: none
    std::optional<FileWatchdog> watchdog;
};

}  // namespace

TEST_CASE("watchdog: a worker whose timer expires gets its signal, and the cause is known") {
    WaitingChild worker;
    WaitingChild other;
    TimerWatch watched({worker.pid(), other.pid()});
    watched.set(worker.pid(), "step", 10ms, SIGUSR1);
    watched.set(other.pid(), "step", 1h);
    run_until(watched.context, [&] { return !watched.watchdog->cause_of(worker.pid()).empty(); });
    CHECK(watched.expired == Expired{{"step", worker.pid()}});
    // Of what was left when the request was read.
    CHECK_THAT(watched.watchdog->cause_of(worker.pid()),
               Catch::StartsWith("its watchdog timer 'step' of ") &&
                   Catch::EndsWith(" s expired, and ddprun sent SIGUSR1"));
    CHECK(worker.ending_signal() == SIGUSR1);
    CHECK(watched.watchdog->cause_of(other.pid()).empty());
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
    CHECK(watched.expired == Expired{{"step", 0}});
    CHECK(worker.end_by(SIGUSR2) == SIGUSR2);
    CHECK(stranger.end_by(SIGUSR2) == SIGUSR2);
}

TEST_CASE("watchdog: a timer without a signal ends nobody, and is told of") {
    WaitingChild worker;
    TimerWatch watched({worker.pid()});
    watched.set(worker.pid(), "only told", 0ms, 0);
    run_until(watched.context, [&] { return !watched.expired.empty(); });
    CHECK(watched.expired == Expired{{"only told", worker.pid()}});
    CHECK(watched.watchdog->cause_of(worker.pid()).empty());
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
    run_until(watched.context, [&] { return !watched.watchdog->cause_of(worker.pid()).empty(); });
    CHECK(worker.ending_signal() == SIGKILL);
    REQUIRE(watched.warnings.size() == 1);
    CHECK_THAT(watched.warnings.front(),
               Catch::Contains("passed over") && Catch::Contains("begins with: not JSON"));
}

TEST_CASE("watchdog: no timer runs on while the workers stand still") {
    WaitingChild worker;
    TimerWatch watched({worker.pid()});
    watched.watchdog->freeze();
    watched.set(worker.pid(), "step", 0ms);
    watched.drain();
    CHECK(watched.watchdog->cause_of(worker.pid()).empty());
    watched.watchdog->thaw();
    run_until(watched.context, [&] { return !watched.watchdog->cause_of(worker.pid()).empty(); });
    CHECK(worker.ending_signal() == SIGKILL);
}

TEST_CASE("watchdog: once the workers are told to end, it takes what they say and ends nobody") {
    WaitingChild worker;
    TimerWatch watched({worker.pid()});
    watched.watchdog->rest();
    watched.set(worker.pid(), "saving", 0ms);
    watched.drain();
    CHECK(watched.watchdog->cause_of(worker.pid()).empty());
    CHECK(worker.end_by(SIGUSR2) == SIGUSR2);
}

}  // namespace ddprun
