#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <span>

#include "launcher/guardian/guardian.hpp"
#include "launcher/guardian/guardian_channel.hpp"
#include "launcher/process/descriptors.hpp"
#include "launcher/process/sweeper.hpp"
#include "rendezvous/base/alive.hpp"
#include "rendezvous/base/check.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace asio = boost::asio;

constexpr char kKilled[] = "the guardian, which runs the workers of this node, was killed";
constexpr char kSilent[] = "the guardian, which runs the workers of this node, does not answer";

// The guardian may take so long to answer; what it has to do takes milliseconds, but a program's file may lie
// on a slow disk. One that does not answer is killed.
constexpr std::chrono::seconds kGuardianTimeout{60};

// A sweep may take so much longer than its timeout, as the guardian shares the machine with the workers.
constexpr std::chrono::seconds kSweepMargin{5};

// This many starts are ordered before the first of them is answered, so that the guardian need not wait for
// the next one. Each brings descriptors, of which the kernel lets only so many be under way.
constexpr std::size_t kStartsAhead = 8;

// These were there before us, and are not ours to kill.
std::vector<ProcessStat> present_children() {
    if (has_no_child()) return {};
    auto processes = read_own_processes().value_or(std::vector<ProcessStat>());
    std::erase_if(processes, [](const ProcessStat& process) { return process.parent != ::getpid(); });
    return processes;
}

// It gets its streams as descriptors, since the guardian's own streams lead elsewhere.
WorkerSpec with_own_streams(WorkerSpec spec) {
    const std::array streams{&spec.standard_input, &spec.standard_output, &spec.standard_error};
    for (int number = 0; number < static_cast<int>(streams.size()); ++number) {
        StreamTarget& target = *streams[static_cast<std::size_t>(number)];
        if (target != StreamTarget(Stdio::inherit)) continue;
        target = is_inherited(number) ? StreamTarget(GivenDescriptor{number}) : StreamTarget(Stdio::null);
    }
    return spec;
}

StartFailure start_failure(const WorkerSpec& spec, int error_number, int exit_code, const char* reason) {
    return {error_number, fmt::format("cannot start '{}': {}", spec.argv.front(), reason), exit_code};
}

class GuardianRunner final : public ProcessRunner {
  public:
    GuardianRunner(const asio::any_io_executor& executor, int workers,
                   std::function<void(const std::string&)> on_lost,
                   const std::optional<std::filesystem::path>& parent,
                   const std::function<void()>& in_helpers)
        : executor_(executor),
          on_lost_(std::move(on_lost)),
          cgroup_(parent ? JobCgroup::make(*parent, workers) : std::nullopt),
          sweeper_(executor, rules()),
          children_(executor, [this] { sweeper_.reap(); }),
          socket_(executor),
          sweep_timer_(executor) {
        become_subreaper();
        auto [ours, theirs] = GuardianChannel::make_pair();
        keeper_ = ::fork();
        if (keeper_ == 0) {
            if (in_helpers) in_helpers();
            become_keeper(std::move(theirs), lease_, cgroup_);
        }
        if (keeper_ < 0) {
            const int error_number = errno;
            if (cgroup_) cgroup_->remove();
            fail_errno(error_number, "cannot start the guardian (fork)");
        }
        keeper_end_ = open_end_of_child(keeper_);
        channel_ = std::move(ours);
        socket_.assign(channel_.fd());
        listen();
    }

    ~GuardianRunner() override {
        hang_up();
        // Processes that a sweep did not end in time are not waited for again; the guardian stays a while to
        // try.
        if (!unkillable_) {
            if (!lost_) await_keeper();
            if (!has_no_child()) sweep_now(rules(), kGuardianTimeout);
        }
        if (cgroup_) cgroup_->remove();
    }

    StartResult start(const WorkerSpec& spec, WorkerObserver& observer) override {
        return std::move(start_all({&spec, 1}, observer).front());
    }

    // Orders some starts ahead, so that the guardian and the agent work side by side.
    std::vector<StartResult> start_all(std::span<const WorkerSpec> specs, WorkerObserver& observer) override {
        std::vector<StartResult> results;
        std::optional<StartFailure> unsent;  // the last one that was ordered
        std::size_t ordered = 0;
        bool refused = false;
        // A start that was ordered behind a refused one is refused as well, and answered.
        for (std::size_t answered = 0; answered < (refused ? ordered : specs.size()); ++answered) {
            while (!refused && !unsent && ordered < std::min(specs.size(), answered + kStartsAhead)) {
                unsent = order_start(specs[ordered], ordered > 0);
                if (!unsent) ++ordered;
            }
            StartResult result = answered < ordered ? await_answer(specs[answered]) : std::move(*unsent);
            if (refused) continue;
            refused = std::holds_alternative<StartFailure>(result);
            if (!refused) add_worker(std::get<Started>(result), specs[answered], observer);
            results.push_back(std::move(result));
        }
        // Events that came along are told from the executor.
        if (!inbox_.empty()) asio::post(executor_, alive_.guard([this] { deliver(); }));
        return results;
    }

    void signal_worker(pid_t worker, int signal, SignalScope scope) override {
        if (workers_.contains(worker)) tell(SignalWorker{worker, signal, scope});
    }

    void forget(pid_t worker) override {
        if (workers_.erase(worker) != 0) tell(ForgetWorker{worker});
    }

    void sweep(std::chrono::milliseconds timeout, std::function<void(const SweepResult&)> done) override {
        check(!sweep_done_, "one sweep at a time");
        if (cleaned_up_) return sweeper_.sweep(timeout, std::move(done));
        sweep_done_ = std::move(done);
        tell(SweepAll{timeout});
        sweep_timer_.expires_after(timeout + kSweepMargin);
        sweep_timer_.async_wait(alive_.guard([this](const boost::system::error_code& cancelled) {
            if (!cancelled && sweep_done_) lose(kSilent);
        }));
    }

    void set_lease(const std::optional<LeaseEnd>& end) override {
        const auto before = lease_.end();
        lease_.set_end(end);
        // The guardian sees at the last end that it has only moved on.
        const bool moves_on = before && !has_passed(before->at) && (!end || end->at >= before->at);
        if (!moves_on && (before || end)) tell(WatchLease{});
    }

    void set_traces(const LauncherTraces& traces) override { tell(traces); }

    std::filesystem::path worker_cgroup(int local_rank) const override {
        return cgroup_ ? cgroup_->used_path(local_rank) : std::filesystem::path();
    }

    void hang_up() override {
        if (socket_.is_open()) socket_.release();
        channel_.close();
    }

  private:
    struct WorkerRow {
        WorkerObserver* observer;
        bool has_exited = false;
    };

    void listen() {
        socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                           alive_.guard([this](const boost::system::error_code& error) {
                               if (error || lost_) return;
                               receive_all();
                               deliver();
                               if (!lost_) listen();
                           }));
    }

    std::optional<StartFailure> order_start(const WorkerSpec& spec, bool in_series) {
        if (lost_) return start_failure(spec, EPIPE, kExitSystem, lost_);
        StartWorker start{with_own_streams(spec), in_series};
        const std::vector<int> descriptors = given_descriptors(start.spec);
        const std::string order = encode_order(std::move(start));
        // The kernel would say the same.
        if (order.size() > kMaxGuardianMessage)
            return start_failure(spec, E2BIG, kExitNotExecutable, std::strerror(E2BIG));
        const int error_number = send(order, descriptors);
        if (lost_) return start_failure(spec, EPIPE, kExitSystem, lost_);
        if (error_number == 0) return std::nullopt;
        return start_failure(spec, error_number, kExitSystem, std::strerror(error_number));
    }

    StartResult await_answer(const WorkerSpec& spec) {
        const Deadline deadline = in_time_for_answer();
        while (!lost_ && answers_.empty()) {
            if (await_ready(channel_.fd(), POLLIN, deadline)) {
                receive_all();
            } else {
                lose(kSilent);
            }
        }
        if (answers_.empty()) return start_failure(spec, EPIPE, kExitSystem, lost_);
        StartResult answer = std::move(answers_.front());
        answers_.pop_front();
        return answer;
    }

    void add_worker(const Started& started, const WorkerSpec& spec, WorkerObserver& observer) {
        workers_.emplace(started.pid, WorkerRow{&observer});
        if (cgroup_) cgroup_->note(spec.local_rank, started.in_own_cgroup);
    }

    SweepRules rules() {
        return {.has_owner = {},
                .sweeps_itself = [this](pid_t pid) { return pid == keeper_; },
                .spared = spared_,
                .kill_at_once =
                    [this] {
                        if (cgroup_) cgroup_->kill();
                    }};
    }

    static Deadline in_time_for_answer() { return std::chrono::steady_clock::now() + kGuardianTimeout; }

    // Returns 0 or an errno. The guardian reads at once unless somebody stopped it.
    int send(const std::string& message, std::span<const int> descriptors = {}) {
        for (const Deadline deadline = in_time_for_answer();;) {
            const int error_number = channel_.send(message, descriptors);
            if (error_number == EPIPE) {
                lose(kKilled);
            } else if (error_number == EAGAIN) {
                if (await_ready(channel_.fd(), POLLOUT, deadline)) continue;
                lose(kSilent);
            }
            return error_number;
        }
    }

    void tell(const GuardianOrder& order) {
        if (!lost_) send(encode_order(order));
    }

    void receive_all() {
        for (;;) {
            auto received = channel_.receive();
            if (std::holds_alternative<GuardianChannel::Nothing>(received)) return;
            if (std::holds_alternative<GuardianChannel::Lost>(received)) return lose(kKilled);
            auto event = decode_event(std::get<GuardianChannel::Packet>(received).bytes);
            check(event.has_value(), "the guardian sent no event");
            if (auto* started = std::get_if<Started>(&*event)) {
                answers_.emplace_back(*started);
            } else if (auto* failure = std::get_if<StartFailure>(&*event)) {
                answers_.emplace_back(std::move(*failure));
            } else {
                inbox_.push_back(std::move(*event));
            }
        }
    }

    // A callback may start the next round, and so bring new events in.
    void deliver() {
        while (!inbox_.empty()) {
            const GuardianEvent event = std::move(inbox_.front());
            inbox_.pop_front();
            if (const auto* exited = std::get_if<WorkerExited>(&event)) {
                report_exit(exited->worker, exited->status);
            } else if (const auto* used = std::get_if<WorkerUse>(&event)) {
                const auto worker = workers_.find(used->worker);
                if (worker != workers_.end()) worker->second.observer->worker_used(used->worker, used->use);
            } else if (const auto* gone = std::get_if<GroupGone>(&event)) {
                report_gone(gone->worker);
            } else {
                report_swept(std::get<SweepResult>(event));
            }
        }
    }

    void report_exit(pid_t pid, const ExitStatus& status) {
        const auto worker = workers_.find(pid);
        if (worker == workers_.end()) return;
        if (!std::exchange(worker->second.has_exited, true))
            worker->second.observer->worker_exited(pid, status);
    }

    void report_gone(pid_t pid) {
        auto worker = workers_.extract(pid);
        if (!worker.empty()) worker.mapped().observer->worker_group_gone(pid);
    }

    void report_swept(const SweepResult& result) {
        sweep_timer_.cancel();
        unkillable_ = !result.survivors.empty();
        if (const auto done = std::exchange(sweep_done_, {})) done(result);
    }

    // It may be called from inside a call of our functions, so everything else comes from the executor.
    void lose(const char* reason) {
        if (lost_) return;
        lost_ = reason;
        hang_up();
        asio::post(executor_, alive_.guard([this] {
            deliver();
            sweeper_.sweep(kGuardianTimeout, [this](const SweepResult& result) { report_loss(result); });
        }));
    }

    void report_loss(const SweepResult& result) {
        cleaned_up_ = true;
        if (on_lost_) on_lost_(lost_);
        std::set<pid_t> ended;
        for (const auto& [pid, row] : workers_) ended.insert(pid);
        for (const Survivor& survivor : result.survivors) ended.erase(survivor.pid);
        for (const pid_t pid : ended) {
            report_exit(pid, Signaled{SIGKILL, false});
            report_gone(pid);
        }
        report_swept(result);
    }

    // The keeper ends when the guardian has ended, which has nothing to do but to kill what is left.
    void await_keeper() {
        if (keeper_end_)
            await_ready(keeper_end_.get(), POLLIN, std::chrono::steady_clock::now() + 2 * kGuardianTimeout);
        ::waitpid(keeper_, nullptr, WNOHANG);
    }

    asio::any_io_executor executor_;
    std::function<void(const std::string&)> on_lost_;
    const std::vector<ProcessStat> spared_ = present_children();
    std::optional<JobCgroup> cgroup_;
    WorkerLease lease_;
    Sweeper sweeper_;
    ChildEvents children_;
    pid_t keeper_ = -1;
    OwnedDescriptor keeper_end_;  // readable once it has ended, reaped or not
    GuardianChannel channel_{OwnedDescriptor()};
    asio::posix::stream_descriptor socket_;
    asio::steady_timer sweep_timer_;  // for the answer to it
    std::map<pid_t, WorkerRow> workers_;
    std::deque<StartResult> answers_;  // to the starts that are under way
    std::deque<GuardianEvent> inbox_;
    std::function<void(const SweepResult&)> sweep_done_;
    const char* lost_ = nullptr;  // the reason, once it is
    bool cleaned_up_ = false;     // after the loss
    bool unkillable_ = false;     // the last sweep left something
    Alive alive_;
};

}  // namespace

std::unique_ptr<ProcessRunner> make_guardian(const asio::any_io_executor& executor, int workers,
                                             std::function<void(const std::string&)> on_lost,
                                             const std::optional<std::filesystem::path>& cgroup_parent,
                                             const std::function<void()>& in_helpers) {
    return std::make_unique<GuardianRunner>(executor, workers, std::move(on_lost), cgroup_parent, in_helpers);
}

}  // namespace launch
}  // namespace ddprun
