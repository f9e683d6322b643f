#include "launcher/guardian/guardian.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "launcher/process/descriptors.hpp"
#include "launcher/process/local_runner.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/process/signal_delivery.hpp"
#include "launcher/process/sweeper.hpp"
#include "rendezvous/base/check.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace asio = boost::asio;

constexpr int kChannelNumber = STDERR_FILENO + 1;
constexpr int kTerminalNumber = kChannelNumber + 1;

// The kernel shows as a command line what stands where it put that of the program, also in a child that was
// forked: words 48 and 49 of stat. Empty: not known.
std::span<char> room_of_command_line() {
    const auto stat = read_small_file("/proc/self/stat", kMaxStatusFile);
    if (!stat) return {};
    std::istringstream words(stat->substr(stat->rfind(')') + 1));
    std::string skipped;
    for (int word = 3; word < 48; ++word) words >> skipped;
    std::uintptr_t begin = 0, end = 0;
    if (!(words >> begin >> end) || end <= begin) return {};
    return {reinterpret_cast<char*>(begin), end - begin};
}

void be_called(const char* name, std::span<char> room, pid_t launcher) {
    ::prctl(PR_SET_NAME, name);
    if (room.empty()) return;
    const std::string title = fmt::format("{} of process {}", name, launcher);
    std::fill(room.begin(), room.end(), '\0');
    std::copy_n(title.begin(), std::min(title.size(), room.size() - 1), room.begin());
}

// Standstill stops all that is below this process, and lets it go on again.
class Standstill {
  public:
    // Can be repeated, for what was started meanwhile, or what somebody else has sent SIGCONT. False where
    // nobody can see who is below.
    bool hold() {
        for (bool found = true; found;) {
            const auto table = read_own_processes();
            if (!table) return false;
            found = false;
            for (const ProcessStat& process : descendants(*table, ::getpid())) {
                if (process.ended() || process.state == 'T') continue;
                signal_process(process, SIGSTOP);
                found = held_.emplace(process.pid, process.start_time).second || found;
            }
        }
        return true;
    }

    void let_go() {
        for (const auto& [pid, start_time] : std::exchange(held_, {})) {
            const auto process = read_process_stat(pid);
            if (process && process->start_time == start_time) signal_process(*process, SIGCONT);
        }
    }

  private:
    std::set<std::pair<pid_t, std::uint64_t>> held_;
};

// Guardian obeys the agent. Everything happens on its only thread.
class Guardian : private WorkerObserver {
  public:
    Guardian(GuardianChannel channel, const WorkerLease& lease, std::optional<JobCgroup> cgroup)
        : channel_(std::move(channel)),
          lease_(lease),
          socket_(context_, channel_.fd()),
          lease_end_(context_),
          runner_(context_.get_executor(), std::move(cgroup)),
          children_(context_.get_executor(), [this] { children_changed(); }) {
        listen();
    }

    // Returns when the agent is gone.
    void run() { context_.run(); }

    const LauncherTraces& traces() const { return traces_; }

  private:
    void listen() {
        socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const auto& error) {
            check(!error, "the guardian cannot wait for the agent");
            if (receive_all()) {
                listen();
            } else {
                context_.stop();
            }
        });
    }

    bool receive_all() {
        for (;;) {
            auto received = channel_.receive();
            if (std::holds_alternative<GuardianChannel::Lost>(received)) return false;
            if (std::holds_alternative<GuardianChannel::Nothing>(received)) return true;
            obey(std::get<GuardianChannel::Packet>(received));
        }
    }

    void obey(GuardianChannel::Packet& packet) {
        // Only starts come with descriptors.
        if (packet.incomplete)
            return refuse(
                {EMFILE, "cannot start a worker: the guardian has no descriptors left for its streams"});
        auto order = decode_order(packet.bytes);
        check(order.has_value(), "the agent sent no order");
        if (auto* start = std::get_if<StartWorker>(&*order)) {
            std::vector<int> numbers;
            for (const OwnedDescriptor& descriptor : packet.descriptors) numbers.push_back(descriptor.get());
            check(give_descriptors(start->spec, numbers), "the agent sent other descriptors than it said");
            if (!start->in_series || !refused_) return start_worker(start->spec);
            refuse({ECANCELED, fmt::format("cannot start '{}': the worker before could not be started",
                                           start->spec.argv.front())});
        } else if (const auto* signal = std::get_if<SignalWorker>(&*order)) {
            runner_.signal_worker(signal->worker, signal->signal, signal->scope);
        } else if (const auto* forget = std::get_if<ForgetWorker>(&*order)) {
            runner_.forget(forget->worker);
        } else if (const auto* sweep = std::get_if<SweepAll>(&*order)) {
            ordered_sweep_ = *sweep;
            if (!ends_lease_) carry_out_sweep();
        } else if (std::holds_alternative<WatchLease>(*order)) {
            watch_lease();
        } else if (auto* traces = std::get_if<LauncherTraces>(&*order)) {
            traces_ = std::move(*traces);
        }
    }

    void carry_out_sweep() {
        const auto sweep = std::exchange(ordered_sweep_, std::nullopt);
        if (sweep) runner_.sweep(sweep->timeout, [this](const SweepResult& result) { send(result); });
    }

    // Somebody may have sent SIGCONT to what is held.
    void children_changed() {
        runner_.children_changed();
        if (held_since_) standstill_.hold();
    }

    void watch_lease() {
        const auto end = lease_.end();
        const auto now = std::chrono::steady_clock::now();
        if (!end || now < end->at) {
            if (std::exchange(held_since_, std::nullopt)) standstill_.let_go();
            if (end) look_at_lease(end->at);
            return;
        }
        const bool waits = end->patience.count() > 0 && (held_since_ || standstill_.hold());
        if (!waits) return end_lease();
        if (!held_since_) held_since_ = now;
        const auto latest = *held_since_ + end->patience;
        now < latest ? look_at_lease(latest) : end_lease();
    }

    void look_at_lease(std::chrono::steady_clock::time_point time) {
        lease_end_.expires_at(time);
        lease_end_.async_wait([this](const auto& cancelled) {
            if (!cancelled) watch_lease();
        });
    }

    void end_lease() {
        held_since_.reset();
        if (std::exchange(ends_lease_, true)) return;
        runner_.sweep(kGuardianTimeout, [this](const SweepResult&) {
            ends_lease_ = false;
            carry_out_sweep();
        });
    }

    void refuse(StartFailure failure) {
        refused_ = true;
        send(std::move(failure));
    }

    void start_worker(const WorkerSpec& spec) {
        refused_ = false;
        auto result = runner_.start(spec, *this);
        if (auto* failure = std::get_if<StartFailure>(&result)) return refuse(std::move(*failure));
        send(std::get<Started>(result));
    }
    void worker_used(pid_t worker, const ResourceUse& use) override { send(WorkerUse{worker, use}); }
    void worker_exited(pid_t worker, const ExitStatus& status) override {
        send(WorkerExited{worker, status});
    }
    void worker_group_gone(pid_t worker) override { send(GroupGone{worker}); }

    // An agent that was stopped (Ctrl-Z) reads later; until then what it must know is kept. It is no more
    // than the ends of the workers that it started.
    void send(const GuardianEvent& event) {
        waiting_.push_back(encode_event(event));
        if (waiting_.size() == 1) send_waiting();
    }

    void send_waiting() {
        while (!waiting_.empty()) {
            const int error_number = channel_.send(waiting_.front());
            if (error_number == EPIPE) return context_.stop();
            if (error_number != 0) {
                return socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                                          [this](const auto& error) {
                                              check(!error, "the guardian cannot wait for the agent");
                                              send_waiting();
                                          });
            }
            waiting_.pop_front();
        }
    }

    asio::io_context context_{1};
    GuardianChannel channel_;
    const WorkerLease& lease_;
    asio::posix::stream_descriptor socket_;
    asio::steady_timer lease_end_;
    Standstill standstill_;  // holds the workers from the end of the lease until it goes on
    std::optional<std::chrono::steady_clock::time_point> held_since_;
    bool ends_lease_ = false;                // a sweep of our own is under way …
    std::optional<SweepAll> ordered_sweep_;  // … and the one that the agent has ordered waits for it
    LocalRunner runner_;
    ChildEvents children_;
    std::deque<std::string> waiting_;
    bool refused_ = false;  // the last start
    LauncherTraces traces_;
};

// Either process ends so. No destructor and no atexit handler of the agent's may run here.
[[noreturn]] void end_all(const std::optional<JobCgroup>& cgroup, const LauncherTraces& traces) {
    const auto kill_cgroup = [&cgroup] {
        if (cgroup) cgroup->kill();
    };
    sweep_now({.has_owner = {}, .sweeps_itself = {}, .spared = {}, .kill_at_once = kill_cgroup},
              kGuardianTimeout);
    if (cgroup) cgroup->remove();
    remove_traces({{}, {}, traces.folder, traces.pipe}, -1);
    ::_exit(0);
}

[[noreturn]] void become_guardian(const GuardianChannel& inherited, const WorkerLease& lease,
                                  const std::optional<JobCgroup>& cgroup) {
    ::setpgid(0, 0);
    become_subreaper();
    const bool has_terminal = ::isatty(STDIN_FILENO) != 0;
    // The channel may lie there.
    const OwnedDescriptor terminal(has_terminal ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, kTerminalNumber + 1)
                                                : -1);
    lead_to_nowhere({STDIN_FILENO, STDOUT_FILENO});
    if (!is_inherited(STDERR_FILENO)) lead_to_nowhere({STDERR_FILENO});
    check(::dup3(inherited.fd(), kChannelNumber, O_CLOEXEC) >= 0 || errno == EINVAL, "dup3 failed");
    const int kept = terminal ? ::dup3(terminal.get(), kTerminalNumber, O_CLOEXEC) : -1;
    close_from(kept < 0 ? kTerminalNumber : kTerminalNumber + 1);
    std::optional<JobCgroup> workers = cgroup;
    if (workers) workers->make_ahead();
    Guardian* guardian =
        new Guardian(GuardianChannel(OwnedDescriptor(kChannelNumber)), lease, std::move(workers));
    guardian->run();
    // A reader of the agent's stderr must not wait for us to close ours.
    lead_to_nowhere({STDERR_FILENO});
    // The terminal comes first, since whoever started the agent may look at it by now; the folder is in use
    // as long as workers live.
    remove_traces({guardian->traces().modes_before, guardian->traces().modes_set, {}, {}}, kept);
    end_all(cgroup, guardian->traces());
}

}  // namespace

bool is_inherited(int fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

void become_keeper(GuardianChannel channel, const WorkerLease& lease,
                   const std::optional<JobCgroup>& cgroup) {
    const pid_t launcher = ::getppid();
    const auto room = room_of_command_line();
    be_called(kKeeperName, room, launcher);
    ::setsid();
    block_signals();
    become_subreaper();
    const pid_t guardian = ::fork();
    if (guardian == 0) {
        be_called(kGuardianName, room, launcher);
        become_guardian(channel, lease, cgroup);
    }
    lead_to_nowhere({STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO});
    close_from(STDERR_FILENO + 1);
    // A process that ends before the guardian was its orphan, and is reaped here on the way.
    for (pid_t ended = 0; guardian > 0 && ended != guardian;) {
        ended = ::waitpid(-1, nullptr, __WALL);
        if (ended < 0 && errno != EINTR) break;
    }
    end_all(cgroup, {});
}

}  // namespace launch
}  // namespace ddprun
