#include "launcher/guardian/guardian.hpp"

#include <poll.h>
#include <sys/syscall.h>
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

#include "launcher/guardian/guardian_channel.hpp"
#include "launcher/guardian/guardian_main.hpp"
#include "launcher/guardian/guardian_wire.hpp"
#include "launcher/process/child_events.hpp"
#include "launcher/process/sweeper.hpp"
#include "rendezvous/system/check.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr char kKilled[] = "the guardian, which runs the workers of this node, was killed";
constexpr char kSilent[] = "the guardian, which runs the workers of this node, does not answer";

// How much longer than its patience a sweep may take, as the guardian shares the machine with the workers.
constexpr std::chrono::seconds kSweepMargin{5};

int milliseconds_until(Clock::time_point deadline) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count();
    return left > 0 ? static_cast<int>(left) : 0;
}

// What was there before us is not ours to kill.
std::vector<ProcessStat> present_children() {
    if (has_no_child()) return {};
    std::vector<ProcessStat> children;
    const auto table = read_process_table();
    if (!table) return children;
    for (const ProcessStat& process : *table) {
        if (process.parent == ::getpid()) children.push_back(process);
    }
    return children;
}

// The worker's streams as descriptors, since the guardian's own streams lead elsewhere.
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
    return {error_number, "cannot start '" + spec.argv.front() + "': " + reason, exit_code};
}

}  // namespace

class GuardianRunner::State : public std::enable_shared_from_this<GuardianRunner::State> {
  public:
    State(const asio::any_io_executor& executor, OnLost on_lost,
          const std::optional<std::filesystem::path>& parent)
        : executor_(executor),
          on_lost_(std::move(on_lost)),
          cgroup_(parent ? JobCgroup::make(*parent) : std::nullopt),
          sweeper_(executor, rules()),
          children_(executor, [this] { sweeper_.reap(); }),
          socket_(executor),
          answer_limit_(executor) {
        become_subreaper();
        auto [ours, theirs] = GuardianChannel::make_pair();
        keeper_ = ::fork();
        if (keeper_ == 0) become_keeper(std::move(theirs), cgroup_);
        if (keeper_ < 0) {
            const int error_number = errno;
            if (cgroup_) cgroup_->remove();
            fail_errno(error_number, "cannot start the guardian (fork)");
        }
        keeper_end_.reset(static_cast<int>(::syscall(SYS_pidfd_open, keeper_, 0)));
        channel_ = std::move(ours);
        socket_.assign(channel_.fd());
    }

    ~State() {
        hang_up();
        // What the patience of a sweep did not end is not waited for again; the guardian stays a while to
        // try.
        if (!unkillable_) {
            if (!lost_) await_keeper();
            if (!has_no_child()) sweep_now(rules(), kGuardianPatience);
        }
        if (cgroup_) cgroup_->remove();
    }

    void listen() {
        socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [weak = weak_from_this()](const boost::system::error_code& error) {
                               auto state = weak.lock();
                               if (error || !state || state->lost_) return;
                               state->receive_all();
                               state->deliver();
                               if (!state->lost_) state->listen();
                           });
    }

    std::variant<Started, StartFailure> start(const WorkerSpec& spec, WorkerEvents events) {
        if (lost_) return start_failure(spec, EPIPE, kExitSystem, lost_);
        const WorkerSpec sent = with_own_streams(spec);
        const std::string order = encode_order(StartWorker{sent});
        // What the kernel would say, too.
        if (order.size() > kMaxGuardianMessage) {
            return start_failure(spec, E2BIG, kExitNotExecutable, std::strerror(E2BIG));
        }
        const auto deadline = Clock::now() + kAnswerPatience;
        if (const int error_number = send(order, given_descriptors(sent), deadline);
            error_number != 0 && !lost_) {
            return start_failure(spec, error_number, kExitSystem, std::strerror(error_number));
        }
        answer_.reset();
        while (!lost_ && !answer_) {
            if (channel_.wait_to_receive(milliseconds_until(deadline))) {
                receive_all();
            } else {
                lose(kSilent);
            }
        }
        // What came along is told from the executor.
        if (!inbox_.empty()) {
            asio::post(executor_, [weak = weak_from_this()] {
                if (auto state = weak.lock()) state->deliver();
            });
        }
        if (!answer_) return start_failure(spec, EPIPE, kExitSystem, lost_);
        if (auto* failure = std::get_if<StartFailure>(&*answer_)) return std::move(*failure);
        const Started started = std::get<Started>(*answer_);
        workers_.emplace(started.pid, std::move(events));
        if (started.in_own_cgroup) {
            in_cgroup_.insert(spec.local_rank);
        } else {
            in_cgroup_.erase(spec.local_rank);
        }
        return started;
    }

    void signal_worker(pid_t worker, int signal, SignalScope scope) {
        if (workers_.count(worker) != 0) tell(SignalWorker{worker, signal, scope});
    }

    void forget(pid_t worker) {
        if (workers_.erase(worker) != 0) tell(ForgetWorker{worker});
    }

    void sweep(Milliseconds patience, std::function<void(const SweepResult&)> done) {
        check(!sweep_done_, "one sweep at a time");
        if (cleaned_up_) return sweeper_.sweep(patience, std::move(done));
        sweep_done_ = std::move(done);
        tell(SweepAll{patience});
        answer_limit_.expires_after(patience + kSweepMargin);
        answer_limit_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
            auto state = weak.lock();
            if (!error && state && state->sweep_done_) state->lose(kSilent);
        });
    }

    std::filesystem::path worker_cgroup(int local_rank) const {
        if (!cgroup_ || in_cgroup_.count(local_rank) == 0) return {};
        return cgroup_->worker_path(local_rank);
    }

  private:
    SweepRules rules() {
        return {.has_owner = {},
                .sweeps_itself = [this](pid_t pid) { return pid == keeper_; },
                .spared = spared_,
                .kill_at_once =
                    [this] {
                        if (cgroup_) cgroup_->kill();
                    }};
    }

    // 0 or an errno. The guardian reads at once unless somebody stopped it.
    int send(const std::string& message, std::span<const int> descriptors, Clock::time_point deadline) {
        for (;;) {
            const int error_number = channel_.send(message, descriptors);
            if (error_number == EPIPE) {
                lose(kKilled);
            } else if (error_number == EAGAIN) {
                if (channel_.wait_to_send(milliseconds_until(deadline))) continue;
                lose(kSilent);
            }
            return error_number;
        }
    }

    void tell(const GuardianOrder& order) {
        if (!lost_) send(encode_order(order), {}, Clock::now() + kAnswerPatience);
    }

    void receive_all() {
        for (;;) {
            auto received = channel_.receive();
            if (std::holds_alternative<GuardianChannel::Nothing>(received)) return;
            if (std::holds_alternative<GuardianChannel::Lost>(received)) return lose(kKilled);
            auto event = decode_event(std::get<GuardianChannel::Packet>(received).bytes);
            check(event.has_value(), "the guardian sent no event");
            if (auto* started = std::get_if<Started>(&*event)) {
                answer_ = *started;
            } else if (auto* failure = std::get_if<StartFailure>(&*event)) {
                answer_ = std::move(*failure);
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
            } else if (const auto* gone = std::get_if<GroupGone>(&event)) {
                report_gone(gone->worker);
            } else if (const auto* swept = std::get_if<SweepResult>(&event)) {
                report_swept(*swept);
            }
        }
    }

    void report_exit(pid_t pid, const ExitStatus& status) {
        const auto worker = workers_.find(pid);
        if (worker == workers_.end()) return;
        // Copied, because the callback may forget the worker.
        const auto on_exit = std::exchange(worker->second.on_exit, {});
        if (on_exit) on_exit(status);
    }

    void report_gone(pid_t pid) {
        auto worker = workers_.extract(pid);
        if (!worker.empty()) worker.mapped().on_group_gone();
    }

    void report_swept(const SweepResult& result) {
        answer_limit_.cancel();
        unkillable_ = !result.survivors.empty();
        if (const auto done = std::exchange(sweep_done_, {})) done(result);
    }

    // May be called from inside a call of our functions, so everything else comes from the executor.
    void lose(const char* reason) {
        if (lost_) return;
        lost_ = reason;
        hang_up();
        asio::post(executor_, [weak = weak_from_this()] {
            if (auto state = weak.lock()) state->clean_up();
        });
    }

    void clean_up() {
        deliver();
        sweeper_.sweep(kGuardianPatience, [this](const SweepResult& result) { report_loss(result); });
    }

    void report_loss(const SweepResult& result) {
        cleaned_up_ = true;
        const auto keep = shared_from_this();
        if (on_lost_) on_lost_(lost_);
        std::vector<pid_t> pids;
        for (const auto& [pid, events] : workers_) pids.push_back(pid);
        const auto is_left = [&result](pid_t pid) {
            for (const Survivor& survivor : result.survivors) {
                if (survivor.pid == pid) return true;
            }
            return false;
        };
        for (pid_t pid : pids) {
            if (is_left(pid)) continue;
            report_exit(pid, Signaled{SIGKILL, false});
            report_gone(pid);
        }
        report_swept(result);
    }

    void hang_up() {
        if (socket_.is_open()) socket_.release();
        channel_.close();
    }

    // The keeper ends when the guardian has ended, which has nothing to do but to kill what is left.
    void await_keeper() {
        const auto deadline = Clock::now() + 2 * kGuardianPatience;
        pollfd event{keeper_end_.get(), POLLIN, 0};
        while (keeper_end_ && ::poll(&event, 1, milliseconds_until(deadline)) < 0 && errno == EINTR) {
        }
        ::waitpid(keeper_, nullptr, WNOHANG);
    }

    asio::any_io_executor executor_;
    OnLost on_lost_;
    const std::vector<ProcessStat> spared_ = present_children();
    const std::optional<JobCgroup> cgroup_;
    Sweeper sweeper_;
    ChildEvents children_;
    pid_t keeper_ = -1;
    OwnedDescriptor keeper_end_;  // readable once it has ended, whoever reaped it
    GuardianChannel channel_{OwnedDescriptor()};
    asio::posix::stream_descriptor socket_;
    asio::steady_timer answer_limit_;  // for a sweep
    std::map<pid_t, WorkerEvents> workers_;
    std::set<int> in_cgroup_;                                    // local ranks
    std::optional<std::variant<Started, StartFailure>> answer_;  // to the start that is under way
    std::deque<GuardianEvent> inbox_;
    std::function<void(const SweepResult&)> sweep_done_;
    const char* lost_ = nullptr;  // the reason, once it is
    bool cleaned_up_ = false;     // after the loss
    bool unkillable_ = false;     // the last sweep left something
};

GuardianRunner::GuardianRunner(const asio::any_io_executor& executor, OnLost on_lost,
                               const std::optional<std::filesystem::path>& cgroup_parent)
    : state_(std::make_shared<State>(executor, std::move(on_lost), cgroup_parent)) {
    state_->listen();
}

GuardianRunner::~GuardianRunner() = default;

std::variant<Started, StartFailure> GuardianRunner::start(const WorkerSpec& spec, WorkerEvents events) {
    return state_->start(spec, std::move(events));
}

void GuardianRunner::signal_worker(pid_t worker, int signal, SignalScope scope) {
    state_->signal_worker(worker, signal, scope);
}

void GuardianRunner::sweep(std::chrono::milliseconds patience, std::function<void(const SweepResult&)> done) {
    state_->sweep(patience, std::move(done));
}

void GuardianRunner::forget(pid_t worker) { state_->forget(worker); }

std::filesystem::path GuardianRunner::worker_cgroup(int local_rank) const {
    return state_->worker_cgroup(local_rank);
}

}  // namespace ddprun
