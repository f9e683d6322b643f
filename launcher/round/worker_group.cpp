#include "launcher/round/worker_group.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "launcher/report/failure_report.hpp"
#include "rendezvous/base/check.hpp"
#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace launch {
namespace {

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace

std::string to_text(const StopNotice& notice) {
    const std::string next = !notice.is_interrupt
                                 ? ""
                                 : fmt::format("; Ctrl-C again in a second or later ends {} now",
                                               notice.is_impatience_local ? "this node's part" : "it");
    return fmt::format("stopping {} rank{}{}{}, up to {} s (--grace){}", notice.ranks,
                       notice.ranks == 1 ? "" : "s", notice.is_of_node ? " of this node" : "",
                       notice.signal != 0 ? " by " + signal_text(notice.signal) : "",
                       seconds(notice.grace_period), next);
}

std::string to_text(const GraceNotice& notice) {
    const auto passed = notice.is_over ? notice.grace_period : notice.grace_period / 2;
    const std::string who =
        notice.ranks.empty()
            ? fmt::format("processes that {} left behind have", ranks_text(notice.leftover))
            : fmt::format("{} {}", ranks_text(notice.ranks), notice.ranks.size() == 1 ? "has" : "have");
    const std::string next = notice.is_over
                                 ? ": SIGKILL"
                                 : fmt::format("; SIGKILL in {} s", seconds(notice.grace_period - passed));
    const std::string option = notice.is_hastened
                                   ? "--lost-grace, since the others may go on without this node"
                                   : fmt::format("--grace {}", seconds(notice.grace_period));
    return fmt::format("{} not ended {} s after {}{} ({})", who, seconds(passed), signal_text(notice.signal),
                       next, option);
}

WorkerGroup::WorkerGroup(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                         GroupObserver& observer, SignalScope scope, Duration kill_timeout)
    : runner_(runner),
      observer_(observer),
      scope_(scope),
      half_timer_(executor),
      grace_timer_(executor),
      kill_timeout_(kill_timeout) {}

// The runner still reaps what is killed here.
WorkerGroup::~WorkerGroup() {
    if (!killing_) signal_all(SIGKILL, SignalScope::group);
    for (const Worker& worker : workers_) {
        if (worker.phase != Worker::Phase::gone) runner_.forget(worker.pid);
    }
}

std::optional<WorkerStartFailure> WorkerGroup::start_all(const std::vector<WorkerSpec>& specs) {
    check(!killing_ && !sweeping_, "a worker group that ends starts nobody");
    workers_.reserve(workers_.size() + specs.size());
    std::optional<WorkerStartFailure> failure;
    const auto now = std::chrono::steady_clock::now();
    auto results = runner_.start_all(specs, *this);
    for (std::size_t i = 0; i < results.size(); ++i) {
        const WorkerSpec& spec = specs[i];
        if (auto* refused = std::get_if<StartFailure>(&results[i])) {
            failure = WorkerStartFailure{spec.rank, spec.local_rank, std::move(*refused)};
        } else {
            workers_.push_back({spec.rank, spec.local_rank, std::get<Started>(results[i]).pid, now});
        }
    }
    if (failure || workers_.empty()) give_up_starting();
    return failure;
}

void WorkerGroup::give_up_starting() { workers_.empty() ? begin_sweep() : kill_now(); }

void WorkerGroup::signal_all(int signal, SignalScope scope) {
    sent_.insert(signal);
    for (const Worker& worker : workers_) {
        if (worker.phase != Worker::Phase::gone) runner_.signal_worker(worker.pid, signal, scope);
    }
}

bool WorkerGroup::expect_stop(int signal) {
    if (killing_ || all_gone()) return false;
    is_stop_due_ = true;
    sent_.insert(signal);
    return true;
}

void WorkerGroup::stop(int signal, Duration grace_period) {
    if (!expect_stop(signal)) return;
    signal_all(signal, scope_);
    signal_all(SIGCONT, SignalScope::group);
    stop_signal_ = signal;
    begin_grace(std::min(grace_period, most_.value_or(grace_period)));
}

void WorkerGroup::hasten(Duration most) {
    most_ = most;
    if (stopping_ && !killing_ && !all_gone()) begin_grace(most);
}

void WorkerGroup::begin_grace(Duration grace_period) {
    const auto now = std::chrono::steady_clock::now();
    if (stopping_ && grace_timer_.expiry() <= now + grace_period) return;
    stopping_ = true;
    grace_period_ = grace_period;
    if (grace_period.count() > 0) wait(half_timer_, now + grace_period / 2, &WorkerGroup::half_over);
    wait(grace_timer_, now + grace_period, &WorkerGroup::grace_over);
}

void WorkerGroup::kill_now() {
    if (killing_ || all_gone()) return;
    killing_ = true;
    cancel_timers();
    signal_all(SIGKILL, SignalScope::group);
    begin_sweep();
}

std::vector<WorkerStatus> WorkerGroup::running_workers() const {
    std::vector<WorkerStatus> found;
    for (const Worker& worker : workers_) {
        if (worker.phase == Worker::Phase::running)
            found.push_back({.rank = worker.rank, .local_rank = worker.local_rank, .pid = worker.pid});
    }
    return found;
}

void WorkerGroup::wait(boost::asio::steady_timer& timer, Deadline deadline, void (WorkerGroup::*then)()) {
    timer.expires_at(deadline);
    timer.async_wait(alive_.guard([this, &timer, then](const boost::system::error_code& cancelled) {
        if (cancelled || killing_ || all_gone()) return;
        // Workers that stood still with this process have not had the time; but others may wait for their
        // end.
        const auto late = most_ ? Deadline::duration(0) : overslept(timer);
        late.count() > 0 ? wait(timer, Deadline::clock::now() + late, then) : (this->*then)();
    }));
}

void WorkerGroup::cancel_timers() {
    half_timer_.cancel();
    grace_timer_.cancel();
}

void WorkerGroup::half_over() { observer_.grace_passed(notice_of_grace(false)); }

// Perhaps the leader hangs, or does not pass the signal on.
void WorkerGroup::ask_again() {
    if (!killing_ && !all_gone()) signal_all(SIGTERM, SignalScope::again);
}

void WorkerGroup::grace_over() {
    grace_over_ = true;
    const GraceNotice notice = notice_of_grace(true);
    kill_now();
    if (grace_period_.count() > 0) observer_.grace_passed(notice);
}

GraceNotice WorkerGroup::notice_of_grace(bool is_over) const {
    GraceNotice notice{.signal = stop_signal_,
                       .grace_period = grace_period_,
                       .is_hastened = most_ && grace_period_ == *most_,
                       .is_over = is_over};
    for (const Worker& worker : workers_) {
        if (worker.phase == Worker::Phase::running) notice.ranks.push_back(worker.rank);
        if (worker.phase == Worker::Phase::ended) notice.leftover.push_back(worker.rank);
    }
    return notice;
}

// A number may be one's again who is gone.
WorkerGroup::Worker& WorkerGroup::worker_of(pid_t pid) {
    const auto worker = std::find_if(workers_.begin(), workers_.end(), [pid](const Worker& one) {
        return one.phase != Worker::Phase::gone && one.pid == pid;
    });
    check(worker != workers_.end(), "a runner reports workers of the group only");
    return *worker;
}

void WorkerGroup::worker_exited(pid_t pid, const ExitStatus& status) {
    Worker& worker = worker_of(pid);
    worker.phase = Worker::Phase::ended;
    const bool in_a_stop = is_stop_due_ || killing_;
    // In the grace period, the leftovers are asked to end, too, and may take their time.
    if (in_a_stop && !killing_) {
        runner_.signal_worker(worker.pid, SIGTERM, SignalScope::leftovers);
    } else {
        runner_.signal_worker(worker.pid, SIGKILL, SignalScope::group);
    }
    const auto* signaled = std::get_if<Signaled>(&status);
    WorkerEnd end{.rank = worker.rank, .local_rank = worker.local_rank, .pid = worker.pid, .status = status};
    end.stopped_by_us = in_a_stop && (signaled == nullptr || sent_.contains(signaled->signal));
    end.outlasted_grace = grace_over_ && signaled != nullptr && signaled->signal == SIGKILL;
    end.wall_time = std::chrono::steady_clock::now() - worker.started;
    end.use = worker.use;
    observer_.ended(end);
}

void WorkerGroup::worker_group_gone(pid_t pid) {
    worker_of(pid).phase = Worker::Phase::gone;
    if (all_gone()) begin_sweep();
}

// Processes that are left now were told to end and did not, or hid from the signals in sessions of their own.
void WorkerGroup::begin_sweep() {
    if (std::exchange(sweeping_, true)) return;
    cancel_timers();
    runner_.sweep(kill_timeout_, alive_.guard([this](const SweepResult& result) { finish(result); }));
}

void WorkerGroup::finish(const SweepResult& result) {
    nothing_left_ = result.nothing_left;
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
    observer_.group_gone(unkillable);
}

bool WorkerGroup::all_gone() const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& worker) { return worker.phase == Worker::Phase::gone; });
}

std::string to_string(const UnkillableWorker& worker) {
    const std::string process = to_string(static_cast<const Survivor&>(worker));
    if (worker.rank < 0) return process + ", left behind by a worker,";
    return fmt::format("rank {}, {},", worker.rank, process);
}

}  // namespace launch
}  // namespace ddprun
