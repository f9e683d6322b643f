#include "launcher/agent/round_workers.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "launcher/agent/rank_limits.hpp"
#include "launcher/process/ending_process.hpp"
#include "launcher/process/job_cgroup.hpp"
#include "launcher/report/error_file.hpp"
#include "launcher/report/failure_hint.hpp"
#include "launcher/wall_clock.hpp"

namespace ddprun {
namespace {

OomSources oom_sources() { return {.job_cgroup = own_cgroup_folder().value_or("")}; }

}  // namespace

std::string file_state(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return {};
    return std::to_string(info.st_ino) + ":" + std::to_string(info.st_size) + ":" +
           std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec);
}

RoundWorkers::RoundWorkers(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                           OutputPump& pump, const LaunchOptions& options, const RoundReady& place,
                           std::string host, RoundEvents events)
    : executor_(executor),
      options_(options),
      runner_(runner),
      pump_(pump),
      place_(place),
      host_(std::move(host)),
      events_(std::move(events)),
      group_(executor, runner,
             {.on_end = [this](const WorkerEnd& end) { ended(end); },
              .on_all_gone = [this](const auto& unkillable) { group_gone(unkillable); },
              .on_grace = [this](const GraceNotice& notice) { events_.on_notice(to_text(notice)); }},
             options.signal_scope),
      self_(std::make_shared<RoundWorkers*>(this)) {}

RoundWorkers::~RoundWorkers() { *self_ = nullptr; }

void RoundWorkers::start() {
    if (!options_.progress_file.empty()) progress_before_ = file_state(options_.progress_file);
    oom_before_ = read_oom_counters(oom_sources());
    pump_.begin_round(
        {.run_id = options_.run_id, .attempt = place_.restart_count, .role = options_.role, .host = host_});
    if (!pump_.log_folder().empty()) events_.on_word("logs: " + pump_.log_folder());
    if (has_tty_rank() && ::isatty(STDIN_FILENO) != 0) relay_.emplace(executor_, STDIN_FILENO);
    watch_ =
        LifeWatch::make(executor_, static_cast<int>(options_.workers.size()), [this] { look_for_deaths(); });
    // The workers' ends of the streams; closed here once the workers have them.
    std::vector<WorkerStreams> streams;
    std::vector<WorkerSpec> specs;
    for (std::size_t i = 0; i < options_.workers.size(); ++i) {
        const int local_rank = static_cast<int>(i);
        streams.push_back(pump_.open(local_rank, place_.base_rank + local_rank));
        error_files_.push_back(streams.back().error_file);
        specs.push_back(spec(local_rank, streams.back()));
    }
    std::optional<WorkerStartFailure> refused;
    if (std::string wrong = rank_beyond_job(options_, place_.world_size); !wrong.empty()) {
        refused = {place_.base_rank, 0, {EINVAL, std::move(wrong), kExitUsage}};
        specs.clear();
    }
    if (auto failed = group_.start_all(specs); failed) refused = std::move(failed);
    tell_start();
    if (relay_) relay_->start();
    if (!refused) {
        if (watch_) watch_->start();
        return;
    }
    all_zero_ = false;
    settled_ = true;  // the others have been killed
    Failure failure = failure_of(refused->rank, refused->local_rank, 0);
    failure.exit_code = refused->failure.exit_code;
    failure.message = refused->failure.text;
    failures_.add(failure);
    fail(failure);
}

void RoundWorkers::stop(int signal) {
    tell_ending(settle());
    if (stop_signal_ == 0) stop_signal_ = signal;
    group_.stop(signal, options_.shutdown_timeout);
}

void RoundWorkers::kill_now() {
    tell_ending(settle());
    group_.kill_now();
}

WorkerSpec RoundWorkers::spec(int local_rank, const WorkerStreams& streams) const {
    const WorkerPlan& plan = options_.workers.at(static_cast<std::size_t>(local_rank));
    WorkerIdentity identity;
    identity.rank = place_.base_rank + local_rank;
    identity.local_rank = local_rank;
    identity.world_size = place_.world_size;
    identity.local_world_size = static_cast<int>(options_.workers.size());
    identity.group_rank = place_.group_rank;
    identity.group_world_size = place_.group_world_size;
    identity.role = options_.role;
    identity.role_rank = place_.role_base_rank + local_rank;
    identity.role_world_size = place_.role_world_size;
    identity.master_addr = options_.master.host;
    identity.master_port = options_.master.port;
    identity.run_id = options_.run_id;
    identity.job_id = place_.job_id;
    identity.round = place_.round;
    identity.restart_count = place_.restart_count;
    identity.max_restarts = place_.max_restarts;
    identity.restart_reason = place_.restart_reason;
    if (watch_) identity.life = watch_->seat(local_rank);

    Environment environment = options_.environment;
    for (const auto& [name, value] : plan.additions) environment[name] = value;
    environment["TORCHELASTIC_ERROR_FILE"] = streams.error_file;
    WorkerSpec spec;
    spec.argv = wrapped_argv(options_.wraps, plan.argv, {identity.rank, local_rank, host_});
    spec.environment = worker_environment(environment, identity);
    spec.rank = identity.rank;
    spec.local_rank = local_rank;
    spec.ignore_hangup = options_.hangup_ignored;
    if (options_.tty_rank == identity.rank) {
        lend_streams(spec);
    } else {
        spec.standard_output = streams.standard_output();
        spec.standard_error = streams.standard_error();
    }
    return spec;
}

void RoundWorkers::tell_start() {
    for (const WorkerStatus& worker : group_.running_workers()) {
        events_.on_word("rank " + std::to_string(worker.rank) + " of " + std::to_string(place_.world_size) +
                        ": pid " + std::to_string(worker.pid));
    }
}

// The launcher's own streams; in place of its terminal the relay's.
void RoundWorkers::lend_streams(WorkerSpec& spec) const {
    spec.standard_input = Stdio::inherit;
    if (!relay_) return;
    const GivenDescriptor terminal{relay_->worker_end()};
    spec.takes_terminal = true;
    spec.standard_input = terminal;
    if (::isatty(STDOUT_FILENO) != 0) spec.standard_output = terminal;
    if (::isatty(STDERR_FILENO) != 0) spec.standard_error = terminal;
}

bool RoundWorkers::has_tty_rank() const {
    const int local_rank = options_.tty_rank.value_or(-1) - place_.base_rank;
    return local_rank >= 0 && local_rank < static_cast<int>(options_.workers.size());
}

void RoundWorkers::look_for_deaths() {
    if (!watch_) return;
    auto deaths = watch_->take();
    if (deaths.empty()) return;
    const auto running = group_.running_workers();
    const auto worker_of = [&](const LifeWatch::Death& death) {
        return std::find_if(running.begin(), running.end(), [&](const WorkerStatus& worker) {
            return worker.local_rank == death.local_rank;
        });
    };
    // How the others ended is known, so they are no suspects; perhaps they ended because of these.
    std::stable_partition(deaths.begin(), deaths.end(),
                          [&](const auto& death) { return worker_of(death) != running.end(); });
    for (const LifeWatch::Death& death : deaths) {
        watch_->announce(death.life);
        if (settled_) continue;
        const auto worker = worker_of(death);
        const bool itself = worker != running.end() && is_ending(worker->pid);
        const int rank = place_.base_rank + death.local_rank;
        if (itself) failures_.suspect(rank);
        if (itself || death.life != 0)
            events_.on_dying({.round = place_.round, .rank = rank, .life = death.life, .itself = itself});
    }
}

// Last look at who ended by itself, before the first signal of ours. Those that only this look has shown.
std::vector<int> RoundWorkers::settle() {
    std::vector<int> found;
    if (settled_) return found;
    look_for_deaths();
    settled_ = true;
    for (const WorkerStatus& worker : group_.running_workers()) {
        if (failures_.is_suspect(worker.rank) || !is_ending(worker.pid)) continue;
        failures_.contend(worker.rank);
        found.push_back(worker.rank);
    }
    return found;
}

void RoundWorkers::tell_ending(const std::vector<int>& ranks) {
    for (const int rank : ranks)
        events_.on_dying({.round = place_.round, .rank = rank, .life = 0, .itself = true});
}

void RoundWorkers::ended(const WorkerEnd& end) {
    const bool zero = succeeded(end.status);
    all_zero_ = all_zero_ && zero;
    RankEnd record{
        .rank = end.rank, .local_rank = end.local_rank, .pid = end.pid, .exit_code = shell_code(end.status)};
    if (const auto* signaled = std::get_if<Signaled>(&end.status)) {
        record.signal = signaled->signal;
        record.core_dumped = signaled->core_dumped;
    }
    record.wall_ms = std::chrono::duration_cast<std::chrono::milliseconds>(end.wall_time).count();
    // The signal may have come from us, or from whoever told us to stop and the worker as well.
    const bool by_stop_signal = record.signal != 0 && record.signal == stop_signal_;
    const bool by_itself =
        failures_.is_suspect(end.rank) || (failures_.is_contender(end.rank) && !by_stop_signal);
    record.outlasted_grace = end.outlasted_grace;
    const bool stopped = end.stopped_by_us && !by_itself;
    record.manner = stopped ? RankEnd::Manner::stopped
                    : zero  ? RankEnd::Manner::succeeded
                            : RankEnd::Manner::failed;
    ends_.push_back(record);
    events_.on_word("rank " + std::to_string(end.rank) + ", pid " + std::to_string(end.pid) + ": " +
                    to_string(end.status) + " after " + std::to_string(record.wall_ms) + " ms" +
                    (stopped ? ", stopped by ddprun" : ""));
    if (record.manner != RankEnd::Manner::failed) return;

    Failure failure = failure_of(end.rank, end.local_rank, end.pid);
    failure.exit_code = record.exit_code;
    failure.signal = record.signal;
    failure.core_dumped = record.core_dumped;
    NodeFailures::Record* kept = failures_.add(failure);
    if (kept == nullptr) return;
    if (!settled_) fail(failure);
    gather_evidence(*kept);
}

void RoundWorkers::fail(const Failure& failure) {
    const std::vector<int> ending = settle();
    events_.on_failure(failure);
    tell_ending(ending);
}

// What the worker has left behind: its error file, its last words, the kernel's counters.
void RoundWorkers::gather_evidence(NodeFailures::Record& record) {
    Failure& failure = record.failure;
    if (failure.signal == SIGKILL) {
        OomSources sources = oom_sources();
        OomCounters before = oom_before_;
        sources.worker_cgroup = runner_.worker_cgroup(failure.local_rank);
        // Made for this worker, its cgroup counts from zero.
        if (!sources.worker_cgroup.empty()) before.worker_kills = 0;
        failure.hint = explain_kill(before, read_oom_counters(sources));
    }
    const std::string& path = error_files_.at(static_cast<std::size_t>(failure.local_rank));
    if (auto error = path.empty() ? std::nullopt : read_error_file(path)) {
        failure.error_message = error->message;
        failure.traceback = error->traceback;
        record.error_file_text = error->file;
    }
    ++open_steps_;
    pump_.last_lines(failure.local_rank, [self = self_, &failure](std::vector<std::string> lines) {
        if (*self == nullptr) return;
        failure.last_lines = std::move(lines);
        if (failure.hint.empty())
            failure.hint = failure_hint(failure, {(*self)->options_.interpreter, shared_memory_room()});
        (*self)->step_done();
    });
}

void RoundWorkers::group_gone(const std::vector<UnkillableWorker>& unkillable) {
    unkillable_ = unkillable;
    watch_.reset();
    if (relay_) relay_->finish();
    for (std::size_t i = 0; i < options_.workers.size(); ++i) {
        ++open_steps_;
        pump_.finish(static_cast<int>(i), [self = self_] {
            if (*self != nullptr) (*self)->step_done();
        });
    }
    step_done();
}

void RoundWorkers::step_done() {
    if (--open_steps_ == 0) events_.on_gone(unkillable_);
}

const Failure* RoundWorkers::failure() const {
    const auto* record = failures_.first();
    return record == nullptr ? nullptr : &record->failure;
}

std::string RoundWorkers::error_file_text() const {
    const auto* record = failures_.first();
    return record == nullptr ? std::string() : record->error_file_text;
}

std::string RoundWorkers::logs_of(const Failure& failure) const {
    const std::string folder = pump_.log_folder();
    if (folder.empty() || failure.node_rank != options_.node_rank || failure.local_rank < 0) return {};
    std::string files;
    for (const OutputStream stream : {OutputStream::err, OutputStream::out}) {
        const std::string name =
            std::to_string(failure.local_rank) + "/" + std::string(stream_name(stream)) + ".log";
        struct stat info {};
        if (::stat((folder + "/" + name).c_str(), &info) == 0 && info.st_size > 0)
            files += (files.empty() ? "" : ", ") + name;
    }
    if (files.empty()) return {};
    return folder + " (rank " + std::to_string(failure.rank) + ": " + files + ")";
}

Failure RoundWorkers::failure_of(int rank, int local_rank, pid_t pid) const {
    Failure failure{.kind = Failure::Kind::worker_failed, .node_rank = options_.node_rank, .host = host_};
    failure.rank = rank;
    failure.local_rank = local_rank;
    failure.pid = pid;
    failure.unix_time_ms = unix_time_now_ms();
    return failure;
}

std::vector<WorkerStatus> RoundWorkers::status() const {
    std::vector<WorkerStatus> workers = group_.running_workers();
    for (const RankEnd& end : ends_) {
        workers.push_back({.rank = end.rank,
                           .local_rank = end.local_rank,
                           .pid = static_cast<pid_t>(end.pid),
                           .exit_code = end.exit_code});
    }
    std::sort(workers.begin(), workers.end(),
              [](const WorkerStatus& a, const WorkerStatus& b) { return a.local_rank < b.local_rank; });
    return workers;
}

bool RoundWorkers::progressed() const {
    return !options_.progress_file.empty() && file_state(options_.progress_file) != progress_before_;
}

}  // namespace ddprun
