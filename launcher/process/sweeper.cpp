#include "launcher/process/sweeper.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <set>
#include <utility>

#include "launcher/process/signal_delivery.hpp"
#include "rendezvous/base/check.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using Clock = std::chrono::steady_clock;

// The first pause is short, since a killed process needs hardly a millisecond.
constexpr Sweeper::Duration kFirstPause{1};
constexpr Sweeper::Duration kLongestPause{50};

// A sweep that cannot see who is left (no /proc) only waits so long for what it has killed.
constexpr Sweeper::Duration kBlindTimeout{1000};

// A kill of all at once may still end what may not be signalled, or it was about to end.
constexpr Sweeper::Duration kRefusedTimeout{500};

void reap_ended(const std::function<bool(pid_t)>& has_owner) {
    for (;;) {
        siginfo_t info = {};
        const int failed = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL);
        if (failed != 0 || info.si_pid == 0) return;
        // Not ended, but stopped by copy_running_thread(), which tells once more when it has seen that.
        if (info.si_code == CLD_TRAPPED) return;
        if (has_owner && has_owner(info.si_pid)) return;
        ::waitpid(info.si_pid, nullptr, WNOHANG | __WALL);
    }
}

std::int64_t user_of(pid_t process) {
    struct stat info {};
    return ::stat(fmt::format("/proc/{}", process).c_str(), &info) == 0 ? std::int64_t{info.st_uid} : -1;
}

sigset_t child_signal() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    return set;
}

// Waits for a SIGCHLD, at most so long.
void await_child_signal(Sweeper::Duration limit) {
    const sigset_t child = child_signal();
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

// An Attempt is one sweep, look by look.
class Sweeper::Attempt {
  public:
    Attempt(const SweepRules& rules, Duration timeout)
        : rules_(rules),
          deadline_(Clock::now() + timeout),
          blind_deadline_(Clock::now() + std::min(timeout, kBlindTimeout)) {}

    // Sends SIGKILL to all that is alive. True if that was the last look: nothing is left, or only what may
    // not be signalled, or the time is over.
    bool look() {
        kill_all();
        if (living_.empty() || refused_.size() < living_.size())
            refused_deadline_ = Clock::now() + kRefusedTimeout;
        return all_gone() || Clock::now() >= refused_deadline_ ||
               Clock::now() >= (sees_ ? deadline_ : blind_deadline_);
    }

    // Says how long to wait before the next look.
    Duration pause() {
        const Duration now = next_pause_;
        next_pause_ = now == Duration(0) ? kFirstPause : std::min(now * 2, kLongestPause);
        return now;
    }
    void look_soon() { next_pause_ = Duration(0); }

    SweepResult result() const {
        SweepResult result{.killed = static_cast<int>(killed_.size()), .nothing_left = has_no_child()};
        for (const ProcessStat& process : living_) {
            if (result.survivors.size() == kMaxSurvivors) break;
            result.survivors.push_back(describe_survivor(process));
            if (refused_.contains(process.pid)) result.survivors.back().foreign_uid = user_of(process.pid);
        }
        // As /proc is mounted, it may hide other users' processes (hidepid).
        if (living_.empty() && sees_ && rules_.spared.empty() && !result.nothing_left)
            result.survivors.push_back(
                {.command = "a child that /proc does not show (hidepid?) and that has not ended"});
        return result;
    }

  private:
    void kill_all() {
        living_.clear();
        const auto refused_before = std::exchange(refused_, {});
        reap_ended(rules_.has_owner);
        if (has_no_child()) return;
        const auto table = read_own_processes();
        sees_ = table.has_value();
        if (sees_) living_ = descendants(*table, ::getpid(), rules_.spared);
        const auto ended = [](const ProcessStat& process) { return process.ended(); };
        living_.erase(std::remove_if(living_.begin(), living_.end(), ended), living_.end());
        const auto sweeps_itself = [this](const ProcessStat& process) {
            return rules_.sweeps_itself && rules_.sweeps_itself(process.pid);
        };
        const bool alone = std::all_of(living_.begin(), living_.end(), [&](const ProcessStat& process) {
            return sweeps_itself(process) || refused_before.contains(process.pid);
        });
        looks_at_it_alone_ = alone ? looks_at_it_alone_ + 1 : 0;
        for (const ProcessStat& process : living_) {
            // The first such look may have missed something, see all_gone().
            if (looks_at_it_alone_ <= 1 && sweeps_itself(process)) continue;
            if (signal_process(process, SIGKILL) == EPERM) refused_.insert(process.pid);
            const bool owned = rules_.has_owner && rules_.has_owner(process.pid);
            if (!owned) killed_.emplace(process.pid, process.start_time);
        }
        if (rules_.kill_at_once) rules_.kill_at_once();
    }

    // A look can miss a process whose parent ended while the table was read. It is our child then, so having
    // none is the proof; beside children that are spared, only a second empty look says that the first missed
    // nothing.
    bool all_gone() {
        if (has_no_child()) return true;
        empty_looks_ = living_.empty() ? empty_looks_ + 1 : 0;
        return !rules_.spared.empty() && empty_looks_ > 1;
    }

    const SweepRules& rules_;
    const Clock::time_point deadline_;
    const Clock::time_point blind_deadline_;
    bool sees_ = true;  // at the last look
    Duration next_pause_{0};
    int empty_looks_ = 0;
    int looks_at_it_alone_ = 0;  // one after the other
    std::vector<ProcessStat> living_;
    std::set<pid_t> refused_;  // of them, at the last look
    Clock::time_point refused_deadline_;
    std::set<std::pair<pid_t, std::uint64_t>> killed_;
};

Sweeper::Sweeper(const boost::asio::any_io_executor& executor, SweepRules rules)
    : rules_(std::move(rules)), timer_(executor) {}

Sweeper::~Sweeper() = default;

void Sweeper::reap() {
    reap_ended(rules_.has_owner);
    if (!attempt_ || !has_no_child()) return;
    attempt_->look_soon();
    look();
}

void Sweeper::sweep(Duration timeout, Done done) {
    check(!attempt_, "one sweep at a time");
    attempt_ = std::make_unique<Attempt>(rules_, timeout);
    done_ = std::move(done);
    look();
}

void Sweeper::look() {
    timer_.expires_after(attempt_->pause());
    timer_.async_wait(alive_.guard([this](const boost::system::error_code& error) {
        if (error || !attempt_) return;
        if (!attempt_->look()) return look();
        const auto attempt = std::move(attempt_);
        const auto done = std::exchange(done_, {});
        done(attempt->result());
    }));
}

SweepResult sweep_now(SweepRules rules, Sweeper::Duration timeout) {
    rules.has_owner = {};
    const sigset_t child = child_signal();
    sigset_t before;
    ::pthread_sigmask(SIG_BLOCK, &child, &before);
    Sweeper::Attempt attempt(rules, timeout);
    while (!attempt.look()) await_child_signal(attempt.pause());
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return attempt.result();
}

namespace {

constexpr std::string_view kMarkName = "DDPRUN_RUN_ID=";

// Looks for the entry piece by piece: an environment may be megabytes long.
bool environment_holds(const std::filesystem::path& file, const std::string& entry) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    // Entries end with a zero byte; with one in front, the first one is like the others.
    const std::string wanted = '\0' + entry + '\0';
    std::string window(1, '\0');
    std::array<char, 16 * 1024> buffer;
    bool found = false;
    while (!found) {
        const ssize_t count = ::read(fd, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        window.append(buffer.data(), static_cast<std::size_t>(count));
        found = window.find(wanted) != std::string::npos;
        if (window.size() >= wanted.size()) window.erase(0, window.size() - wanted.size() + 1);
    }
    ::close(fd);
    return found;
}

bool may_be_read(const std::filesystem::path& process) {
    const uid_t user = ::geteuid();
    struct stat info {};
    return user == 0 || (::stat(process.c_str(), &info) == 0 && info.st_uid == user);
}

}  // namespace

std::vector<Survivor> find_survivors(std::string_view job_id, std::uint64_t since,
                                     const std::filesystem::path& proc) {
    const std::string entry = std::string(kMarkName) + std::string(job_id);
    std::vector<Survivor> found;
    for (const pid_t pid : list_processes(proc).value_or(std::vector<pid_t>())) {
        const auto folder = proc / std::to_string(pid);
        const auto process = may_be_read(folder) ? read_process_stat(pid, proc) : std::nullopt;
        if (process && !process->ended() && process->start_time >= since &&
            environment_holds(folder / "environ", entry)) {
            found.push_back(describe_survivor(*process, proc));
        }
    }
    return found;
}

namespace {

int child_signal_descriptor() {
    const sigset_t child = child_signal();
    ::pthread_sigmask(SIG_BLOCK, &child, nullptr);
    // Ignored, as some launchers leave it, it would throw away how children ended.
    ::signal(SIGCHLD, SIG_DFL);
    const int fd = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) fail_errno(errno, "cannot wait for child processes (signalfd)");
    return fd;
}

}  // namespace

ChildEvents::ChildEvents(const boost::asio::any_io_executor& executor, std::function<void()> on_change)
    : signals_(executor, child_signal_descriptor()), on_change_(std::move(on_change)) {
    wait();
}

void ChildEvents::wait() {
    signals_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                        alive_.guard([this](const boost::system::error_code& error) {
                            if (error) return;
                            signalfd_siginfo info;
                            while (::read(signals_.native_handle(), &info, sizeof info) > 0) {
                            }
                            wait();
                            on_change_();
                        }));
}

}  // namespace launch
}  // namespace ddprun
