#include "launcher/sweeper.hpp"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "rendezvous/check.hpp"
#include "rendezvous/error.hpp"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

// Soon at first, since a killed process needs hardly a millisecond.
constexpr Sweeper::Duration kFirstLook{1};
constexpr Sweeper::Duration kLongestLook{50};

Sweeper::Duration grow(Sweeper::Duration look) { return std::min(look * 2, kLongestLook); }

void reap_ended(const std::function<bool(pid_t)>& has_owner) {
    for (;;) {
        siginfo_t info = {};
        const int failed = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL);
        if (failed != 0 || info.si_pid == 0) return;
        if (has_owner && has_owner(info.si_pid)) return;
        ::waitpid(info.si_pid, nullptr, WNOHANG | __WALL);
    }
}

// A child of ours keeps its number until we reap it. The number of any other process may be given to a
// stranger between the look and the signal: the descriptor holds on to one process, and a second look tells
// whether it is the right one.
void kill_process(const ProcessStat& process) {
    if (process.parent == ::getpid()) {
        ::kill(process.pid, SIGKILL);
        return;
    }
    const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0));
    if (pidfd < 0) return;
    const auto again = read_process_stat(process.pid);
    if (again && again->start_time == process.start_time) {
        ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
    }
    ::close(pidfd);
}

// Waits for a SIGCHLD, at most so long.
void await_child_signal(Sweeper::Duration limit) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    const auto nanoseconds = std::chrono::nanoseconds(limit).count();
    const timespec time{static_cast<time_t>(nanoseconds / 1'000'000'000), nanoseconds % 1'000'000'000};
    ::sigtimedwait(&child, nullptr, &time);
}

}  // namespace

void become_subreaper() {
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) fail_errno(errno, "cannot become a child sub-reaper");
}

bool has_no_child() {
    siginfo_t info = {};
    const int options = WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT | __WALL;
    return ::waitid(P_ALL, 0, &info, options) != 0 && errno == ECHILD;
}

Sweeper::Sweeper(const boost::asio::any_io_executor& executor, Rules rules)
    : rules_(std::move(rules)), timer_(executor) {}

void Sweeper::reap() {
    reap_ended(rules_.has_owner);
    // The look finds nothing and ends the sweep, from the executor.
    if (done_ && has_no_child() && timer_.expiry() > Clock::now()) {
        next_look_ = Duration(0);
        look();
    }
}

void Sweeper::sweep(Duration patience, Done done) {
    check(!done_, "one sweep at a time");
    done_ = std::move(done);
    deadline_ = Clock::now() + patience;
    next_look_ = Duration(0);
    empty_looks_ = 0;
    look();
}

SweepResult Sweeper::sweep_now(Duration patience) {
    deadline_ = Clock::now() + patience;
    sigset_t child;
    sigset_t before;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &child, &before);
    rules_.has_owner = {};
    empty_looks_ = 0;
    std::vector<ProcessStat> left;
    for (Duration look = kFirstLook;; look = grow(look)) {
        left = kill_all();
        if (all_gone(left) || Clock::now() >= deadline_) break;
        await_child_signal(look);
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return take_result(left);
}

// Sends SIGKILL to all that is alive, and says what that was.
std::vector<ProcessStat> Sweeper::kill_all() {
    reap_ended(rules_.has_owner);
    if (has_no_child()) return {};
    auto table = read_process_table();
    std::vector<ProcessStat> living;
    if (table) living = descendants(*table, ::getpid(), rules_.spared);
    living.erase(std::remove_if(living.begin(), living.end(), [](const auto& one) { return one.ended(); }),
                 living.end());
    for (const ProcessStat& process : living) {
        kill_process(process);
        const bool owned = rules_.has_owner && rules_.has_owner(process.pid);
        if (!owned) killed_.emplace(process.pid, process.start_time);
    }
    if (rules_.kill_at_once) rules_.kill_at_once();
    return living;
}

// A look can miss a process whose parent ended while the table was read. It is our child then, so having none
// is the proof; beside children that are spared, only a second empty look says that the first one missed
// nothing.
bool Sweeper::all_gone(const std::vector<ProcessStat>& living) {
    if (has_no_child()) return true;
    empty_looks_ = living.empty() ? empty_looks_ + 1 : 0;
    return !rules_.spared.empty() && empty_looks_ > 1;
}

void Sweeper::look() {
    timer_.expires_after(next_look_);
    next_look_ = next_look_ == Duration(0) ? kFirstLook : grow(next_look_);
    timer_.async_wait([this, life = std::weak_ptr<int>(life_)](const boost::system::error_code& error) {
        if (error || life.expired() || !done_) return;
        const auto left = kill_all();
        if (all_gone(left) || Clock::now() >= deadline_) return finish(left);
        look();
    });
}

void Sweeper::finish(const std::vector<ProcessStat>& left) {
    auto done = std::exchange(done_, {});
    done(take_result(left));
}

SweepResult Sweeper::take_result(const std::vector<ProcessStat>& left) {
    SweepResult result;
    result.killed = static_cast<int>(std::exchange(killed_, {}).size());
    for (const ProcessStat& process : left) {
        if (result.survivors.size() == kMaxSurvivors) break;
        result.survivors.push_back(describe_survivor(process));
    }
    return result;
}

}  // namespace ddprun
