#include "launcher/agent/worker_group.hpp"

#include <algorithm>
#include <csignal>
#include <set>
#include <utility>

#include "rendezvous/system/check.hpp"

namespace ddprun {

struct WorkerGroup::Worker {
    enum class Phase { running, ended, gone };

    int rank = 0;
    int local_rank = 0;
    pid_t pid = 0;
    std::chrono::steady_clock::time_point started;
    Phase phase = Phase::running;
};

// Shared, so that events which are still under way when the group is destroyed find out.
class WorkerGroup::State : public std::enable_shared_from_this<WorkerGroup::State> {
  public:
    State(const boost::asio::any_io_executor& executor, ProcessRunner& runner, WorkerGroupEvents events,
          SignalScope scope, Duration kill_patience)
        : runner_(runner),
          events_(std::move(events)),
          scope_(scope),
          half_timer_(executor),
          grace_timer_(executor),
          kill_patience_(kill_patience) {}

    std::optional<WorkerStartFailure> start_all(const std::vector<WorkerSpec>& specs) {
        check(!started_, "a worker group is started once");
        started_ = true;
        workers_.reserve(specs.size());
        std::optional<WorkerStartFailure> failure;
        for (const WorkerSpec& spec : specs) {
            auto result = runner_.start(spec, events_of(workers_.size()));
            if (auto* refused = std::get_if<StartFailure>(&result)) {
                failure = WorkerStartFailure{spec.rank, spec.local_rank, std::move(*refused)};
                break;
            }
            workers_.push_back({spec.rank, spec.local_rank, std::get<Started>(result).pid,
                                std::chrono::steady_clock::now()});
        }
        if (workers_.empty()) {
            begin_sweep();
        } else if (failure) {
            kill_now();
        }
        return failure;
    }

    void signal_all(int signal) { signal_all(signal, scope_); }

    void signal_all(int signal, SignalScope scope) {
        sent_.insert(signal);
        for (const Worker& worker : workers_) {
            if (worker.phase != Worker::Phase::gone) runner_.signal_worker(worker.pid, signal, scope);
        }
    }

    void stop(int signal, Duration grace) {
        if (killing_ || all_gone()) return;
        signal_all(signal);
        signal_all(SIGCONT, SignalScope::group);
        stop_signal_ = signal;
        const auto now = std::chrono::steady_clock::now();
        if (stopping_ && grace_timer_.expiry() <= now + grace) return;
        stopping_ = true;
        grace_ = grace;
        if (grace.count() > 0) wait(half_timer_, now + grace / 2, [](State& state) { state.half_over(); });
        wait(grace_timer_, now + grace, [](State& state) { state.grace_over(); });
    }

    void kill_now() {
        if (killing_ || all_gone()) return;
        killing_ = true;
        cancel_timers();
        signal_all(SIGKILL, SignalScope::group);
        begin_sweep();
    }

    std::size_t running() const {
        return std::count_if(workers_.begin(), workers_.end(),
                             [](const Worker& worker) { return worker.phase == Worker::Phase::running; });
    }

    std::vector<WorkerStatus> running_workers() const {
        std::vector<WorkerStatus> found;
        for (const Worker& worker : workers_) {
            if (worker.phase == Worker::Phase::running)
                found.push_back({.rank = worker.rank, .local_rank = worker.local_rank, .pid = worker.pid});
        }
        return found;
    }

    // The group is being destroyed: the runner still reaps what is killed here.
    void abandon() {
        if (!killing_) signal_all(SIGKILL, SignalScope::group);
        events_ = {};
        cancel_timers();
    }

  private:
    void wait(boost::asio::steady_timer& timer, std::chrono::steady_clock::time_point end,
              void (*then)(State&)) {
        timer.expires_at(end);
        timer.async_wait([weak = weak_from_this(), then](const boost::system::error_code& error) {
            auto state = weak.lock();
            if (!error && state && !state->killing_ && !state->all_gone()) then(*state);
        });
    }

    void cancel_timers() {
        half_timer_.cancel();
        grace_timer_.cancel();
    }

    // Perhaps the leader hangs, or does not pass the signal on.
    void half_over() {
        const GraceNotice notice = notice_of_grace(false);
        signal_all(SIGTERM, SignalScope::group);
        if (auto on_grace = events_.on_grace) on_grace(notice);
    }

    void grace_over() {
        grace_over_ = true;
        const GraceNotice notice = notice_of_grace(true);
        kill_now();
        auto on_grace = events_.on_grace;
        if (on_grace && grace_.count() > 0) on_grace(notice);
    }

    GraceNotice notice_of_grace(bool is_over) const {
        GraceNotice notice{.signal = stop_signal_, .grace = grace_, .is_over = is_over};
        for (const Worker& worker : workers_) {
            if (worker.phase == Worker::Phase::running) notice.ranks.push_back(worker.rank);
            if (worker.phase == Worker::Phase::ended) notice.leftover.push_back(worker.rank);
        }
        return notice;
    }

    WorkerEvents events_of(std::size_t index) {
        return {[weak = weak_from_this(), index](const ExitStatus& status) {
                    if (auto state = weak.lock()) state->on_exit(index, status);
                },
                [weak = weak_from_this(), index] {
                    if (auto state = weak.lock()) state->on_group_gone(index);
                }};
    }

    void on_exit(std::size_t index, const ExitStatus& status) {
        Worker& worker = workers_[index];
        worker.phase = Worker::Phase::ended;
        const bool in_a_stop = stopping_ || killing_;
        // In a stop with grace left, the leftovers are asked to end, too, and may take their time.
        if (in_a_stop && !killing_) {
            runner_.signal_worker(worker.pid, SIGTERM, SignalScope::leftovers);
        } else {
            runner_.signal_worker(worker.pid, SIGKILL, SignalScope::group);
        }
        const auto* signaled = std::get_if<Signaled>(&status);
        WorkerEnd end{
            .rank = worker.rank, .local_rank = worker.local_rank, .pid = worker.pid, .status = status};
        end.stopped_by_us = in_a_stop && (signaled == nullptr || sent_.count(signaled->signal) != 0);
        end.outlasted_grace = grace_over_ && signaled != nullptr && signaled->signal == SIGKILL;
        end.wall_time = std::chrono::steady_clock::now() - worker.started;
        // Copied, because the callback may destroy the group and with it the events.
        if (auto on_end = events_.on_end) on_end(end);
    }

    void on_group_gone(std::size_t index) {
        workers_[index].phase = Worker::Phase::gone;
        if (all_gone()) begin_sweep();
    }

    // What is left now was told to end and did not, or hid from the signals in a session of its own.
    void begin_sweep() {
        if (std::exchange(sweeping_, true)) return;
        cancel_timers();
        runner_.sweep(kill_patience_, [weak = weak_from_this()](const SweepResult& result) {
            if (auto state = weak.lock()) state->finish(result);
        });
    }

    void finish(const SweepResult& result) {
        std::vector<UnkillableWorker> unkillable;
        for (const Survivor& survivor : result.survivors) {
            const auto worker = std::find_if(workers_.begin(), workers_.end(), [&](const Worker& one) {
                return one.phase != Worker::Phase::gone && one.pid == survivor.pid;
            });
            const bool found = worker != workers_.end();
            unkillable.push_back({survivor, found ? worker->rank : -1, found ? worker->local_rank : -1});
        }
        for (Worker& worker : workers_) {
            if (worker.phase != Worker::Phase::gone) runner_.forget(worker.pid);
            worker.phase = Worker::Phase::gone;
        }
        if (auto on_all_gone = events_.on_all_gone) on_all_gone(unkillable);
    }

    bool all_gone() const {
        return std::all_of(workers_.begin(), workers_.end(),
                           [](const Worker& worker) { return worker.phase == Worker::Phase::gone; });
    }

    ProcessRunner& runner_;
    WorkerGroupEvents events_;
    const SignalScope scope_;
    boost::asio::steady_timer half_timer_;
    boost::asio::steady_timer grace_timer_;
    const Duration kill_patience_;
    std::vector<Worker> workers_;
    std::set<int> sent_;  // signals, to whichever of them
    Duration grace_{0};
    int stop_signal_ = 0;
    bool started_ = false;
    bool stopping_ = false;
    bool killing_ = false;
    bool grace_over_ = false;
    bool sweeping_ = false;
};

WorkerGroup::WorkerGroup(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                         WorkerGroupEvents events, SignalScope scope, Duration kill_patience)
    : state_(std::make_shared<State>(executor, runner, std::move(events), scope, kill_patience)) {}

WorkerGroup::~WorkerGroup() { state_->abandon(); }

std::optional<WorkerStartFailure> WorkerGroup::start_all(const std::vector<WorkerSpec>& specs) {
    return state_->start_all(specs);
}

void WorkerGroup::signal_all(int signal) { state_->signal_all(signal); }

void WorkerGroup::freeze() { state_->signal_all(SIGSTOP, SignalScope::group); }

void WorkerGroup::thaw() { state_->signal_all(SIGCONT, SignalScope::group); }

void WorkerGroup::stop(int signal, Duration grace) { state_->stop(signal, grace); }

void WorkerGroup::kill_now() { state_->kill_now(); }

std::string to_string(const UnkillableWorker& worker) {
    const std::string process = to_string(static_cast<const Survivor&>(worker));
    if (worker.rank < 0) return process + ", left behind by a worker,";
    return "rank " + std::to_string(worker.rank) + ", " + process + ",";
}

std::size_t WorkerGroup::running() const { return state_->running(); }

std::vector<WorkerStatus> WorkerGroup::running_workers() const { return state_->running_workers(); }

}  // namespace ddprun
