#include "launcher/agent/round_workers.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "launcher/file_state.hpp"
#include "launcher/process/descriptors.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/report/failure_report.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/first_failure.hpp"
#include "rendezvous/worker/life_table.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// The launcher's own place among the features that hold the first signal of a stop.
constexpr int kOwnHold = -1;

// A stop of which nothing was said takes so long before a line says how much longer it may.
constexpr std::chrono::seconds kSlowStop{2};

HintFacts hint_facts(const LaunchOptions& options, const Failure& failure) {
    const WorkerPlan& plan = plan_of_worker(options, failure.rank, failure.local_rank);
    rlimit locked{};
    return {.interpreter = options.interpreter,
            .sees_one_gpu = plan.sees_one_gpu && !options.virtual_local_rank,
            .shared_memory = shared_memory_room(),
            .is_beyond_gpus = plan.is_beyond_gpus,
            .nccl_is_quiet = find_variable(options.environment, "NCCL_DEBUG") == nullptr,
            .locks_memory_to_a_limit =
                ::getrlimit(RLIMIT_MEMLOCK, &locked) != 0 || locked.rlim_cur != RLIM_INFINITY};
}

}  // namespace

RoundWorkers::RoundWorkers(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                           OutputPump& pump, const LaunchOptions& options, const RoundReady& place,
                           WorkerStation station, OomSources oom, const Features& features,
                           RoundObserver& observer)
    : executor_(executor),
      options_(options),
      runner_(runner),
      pump_(pump),
      place_(place),
      station_(std::move(station)),
      oom_(std::move(oom)),
      features_(features),
      observer_(observer),
      ledger_(options.node_rank, station_.host, place, file_state(options.progress_file)),
      group_(executor, runner, *this, options.signal_scope),
      gate_(executor,
            [this](const auto& cause, const auto& go_on_of) {
                auto holding = features_.before_stop(cause, go_on_of);
                if (raised_.hold(cause, go_on_of(kOwnHold))) holding.insert(kOwnHold);
                return holding;
            }),
      raised_(executor, pump, ledger_),
      slow_timer_(executor) {}

void RoundWorkers::start() {
    oom_before_ = read_oom_counters(oom_);
    std::optional<WorkerStartFailure> refused;
    if (auto wrong = rank_beyond_job(options_, place_.world_size)) {
        refused = {place_.base_rank, 0, {EINVAL, std::move(*wrong), kExitUsage}};
        group_.give_up_starting();
    } else {
        refused = start_group();
    }
    for (const WorkerStatus& worker : group_.running_workers()) {
        observer_.say(LogLevel::debug,
                      fmt::format("rank {} of {}: pid {}", worker.rank, place_.world_size, worker.pid));
        const std::string& place = options_.workers.at(static_cast<std::size_t>(worker.local_rank)).place;
        if (!place.empty())
            observer_.say(LogLevel::debug,
                          fmt::format("rank {} of {} on {}: {}", worker.rank, place_.world_size,
                                      node_text(place_.group_rank, station_.host), place));
    }
    if (refused) return fail(ledger_.refused(*refused, unix_time_now_ms()));
    // After the workers that have ended already: if all have, there is nobody to watch.
    boost::asio::post(executor_, alive_.guard([this] {
        if (watch_ && !group_.running_workers().empty()) watch_->start();
    }));
}

void RoundWorkers::tell_traces() {
    LauncherTraces traces{.modes_before = {}, .modes_set = {}, .folder = pump_.temporary_folder()};
    features_.at(&Feature::add_to, traces);
    has_traces_ = !traces.pipe.empty() || !traces.modes_set.empty();
    runner_.set_traces(traces);
}

void RoundWorkers::prepare() {
    pump_.begin_round({.run_id = options_.run_id,
                       .start_unix_s = place_.start_unix_s,
                       .round = place_.round,
                       .role = options_.role,
                       .host = station_.host,
                       .job_id = place_.job_id,
                       .node_rank = place_.group_rank,
                       .is_alone = options_.nnodes == 1});
    station_.mesh_key = mesh_key_of(options_, place_);
    if (!pump_.log_folder().empty()) observer_.say(LogLevel::debug, "logs: " + pump_.log_folder());
    features_.at(&Feature::round_begins, place_, station_.added);
    tell_traces();
    watch_ =
        LifeWatch::make(executor_, static_cast<int>(options_.workers.size()), [this] { look_for_deaths(); });
}

// What fails here fails the round: the other nodes and the report are to hear of it.
std::optional<WorkerStartFailure> RoundWorkers::start_group() {
    int first = 0;
    try {
        prepare();
        const int workers = static_cast<int>(options_.workers.size());
        std::optional<WorkerStartFailure> refused;
        // Once also where there are none: the group is told so, and is gone.
        do {
            refused = start_some(first, std::min(first + kStartsAtOnce, workers));
            first += kStartsAtOnce;
        } while (first < workers && !refused);
        return refused;
    } catch (const boost::system::system_error& error) {
        group_.give_up_starting();
        return WorkerStartFailure{
            place_.base_rank + first, first, {error.code().value(), error.what(), kExitSystem}};
    }
}

std::optional<WorkerStartFailure> RoundWorkers::start_some(int first, int end) {
    // The workers' ends of the streams; closed here once the workers have them.
    const std::vector<WorkerStreams> streams = pump_.open(first, place_.base_rank + first, end - first);
    std::vector<OwnedDescriptor> programs;
    std::vector<WorkerSpec> specs;
    for (int local_rank = first; local_rank < end; ++local_rank) {
        const WorkerStreams& own = streams[static_cast<std::size_t>(local_rank - first)];
        error_files_.push_back(own.error_file);
        WorkerStation station = station_;
        station.life = watch_ ? watch_->slot(local_rank) : std::string();
        station.error_file = own.error_file;
        station.standard_output = own.standard_output();
        station.standard_error = own.standard_error();
        if (options_.read_program) {
            programs.push_back(make_text_file("ddprun-program", *options_.read_program));
            if (!programs.back()) fail_errno(errno, "cannot hand on the program: memfd_create");
            station.program_input = GivenDescriptor{programs.back().get()};
        }
        specs.push_back(place_worker(options_, place_, local_rank, station));
    }
    return group_.start_all(specs);
}

void RoundWorkers::hear(const ControlMessage& message) {
    if (const auto* notice = std::get_if<NoticeSignal>(&message)) group_.signal_all(notice->signal);
    const auto* dying = std::get_if<PeerDying>(&message);
    if (dying != nullptr && watch_ && dying->round == place_.round) watch_->announce(dying->life);
    // No report follows that would show the last words of a rank which is kept off the screen.
    const auto* restarting = std::get_if<Restarting>(&message);
    const auto own = restarting != nullptr ? ledger_.failure() : std::nullopt;
    if (own && reporter_of(*own) == reporter_of(restarting->cause)) pump_.replay_stderr(own->local_rank);
}

void RoundWorkers::stop(const StopCause& cause) {
    tell_ending(settle());
    ledger_.stop(cause.signal);
    raised_.note(cause);
    if (!group_.expect_stop(cause.signal)) return;
    hurry();
    if (cause_.signal != 0) return stop_now(cause.signal);
    cause_ = cause;
    auto until_kill = options_.grace_period;
    if (last_moment_) until_kill = std::min(until_kill, time_until(*last_moment_));
    const bool is_held = gate_.hold(cause, until_kill, [this, signal = cause.signal] {
        // The time of features is part of that.
        if (last_moment_) group_.hasten(time_until(*last_moment_));
        stop_now(signal);
    });
    if (!is_held) stop_now(cause.signal);
}

void RoundWorkers::stop_now(int signal) {
    // A signal to the launcher is answered by a line that has the bound, and half of a short grace by
    // another.
    const bool is_told = cause_.received != 0 || options_.grace_period < 4 * kSlowStop;
    if (raised_.send() && !is_told) {
        slow_timer_.expires_after(kSlowStop);
        slow_timer_.async_wait(alive_.guard([this](boost::system::error_code cancelled) {
            if (!cancelled) say_slow_stop();
        }));
    }
    group_.stop(signal, options_.grace_period);
}

void RoundWorkers::say_slow_stop() {
    std::vector<int> ranks;
    for (const WorkerStatus& worker : group_.running_workers()) ranks.push_back(worker.rank);
    auto left = options_.grace_period - kSlowStop;
    if (last_moment_) left = std::min<std::chrono::milliseconds>(left, time_until(*last_moment_));
    if (ranks.empty() || left.count() <= 0) return;
    observer_.say(LogLevel::info, fmt::format("waiting for {} to end, up to {} s more (--grace)",
                                              ranks_text(std::move(ranks)), left.count() / 1000));
}

void RoundWorkers::hasten(std::chrono::milliseconds most) {
    last_moment_ = Deadline::clock::now() + most;
    group_.hasten(most);
    hurry();
}

void RoundWorkers::grace_passed(const GraceNotice& notice) {
    observer_.say(LogLevel::info, to_text(notice));
    if (notice.is_over) return;
    cause_.signal = SIGTERM;
    cause_.is_half_over = true;
    const bool is_held = gate_.hold(cause_, notice.grace_period / 2, [this] { group_.ask_again(); });
    if (!is_held) group_.ask_again();
}

void RoundWorkers::kill_now() {
    gate_.drop();
    tell_ending(settle());
    raised_.send();
    group_.kill_now();
}

void RoundWorkers::look_for_deaths() {
    if (!watch_) return;
    std::vector<RoundLedger::Death> deaths;
    const auto running = group_.running_workers();
    for (const LifeWatch::Death& death : watch_->take()) {
        const auto worker = std::find_if(running.begin(), running.end(), [&](const WorkerStatus& status) {
            return status.local_rank == death.local_rank;
        });
        const bool is_running = worker != running.end();
        deaths.push_back({.local_rank = death.local_rank,
                          .life = death.life,
                          .is_running = is_running,
                          .is_ending = is_running && is_ending(worker->pid)});
    }
    for (const WorkerDying& dying : ledger_.see(std::move(deaths))) {
        watch_->announce(dying.life);
        if (!ledger_.is_settled() && (dying.itself || dying.life != 0)) observer_.send(dying);
    }
}

// Last look at who ended by itself, before the first signal of ours.
std::vector<int> RoundWorkers::settle() {
    if (ledger_.is_settled()) return {};
    look_for_deaths();
    std::vector<int> ending;
    for (const WorkerStatus& worker : group_.running_workers()) {
        if (is_ending(worker.pid)) ending.push_back(worker.rank);
    }
    return ledger_.settle(ending);
}

void RoundWorkers::tell_ending(const std::vector<int>& ranks) {
    for (const int rank : ranks)
        observer_.send(WorkerDying{.round = place_.round, .rank = rank, .life = 0, .itself = true});
}

void RoundWorkers::ended(const WorkerEnd& end) {
    raised_.note_before_end();
    const RoundLedger::Entry entry = ledger_.ended(end, unix_time_now_ms());
    observer_.say(LogLevel::debug,
                  fmt::format("rank {}, pid {}: {} after {} ms{}", end.rank, end.pid, to_string(end.status),
                              entry.end.wall_ms,
                              entry.end.manner == RankEnd::Manner::stopped ? ", stopped by ddprun" : ""));
    features_.at(&Feature::learnt, WorkerEnded{place_.round, entry.end, end.use});
    if (entry.is_first_success) observer_.send(RankSucceeded{place_.round, end.rank});
    if (entry.failure != nullptr) {
        features_.at(&Feature::worker_failed, *entry.failure);
        if (entry.is_first) fail(*entry.failure);
        gather_evidence(*entry.failure);
    }
    raised_.look_after_end();
}

void RoundWorkers::fail(const Failure& failure) {
    const std::vector<int> ending = settle();
    observer_.workers_fail(failure);
    tell_ending(ending);
}

void RoundWorkers::hangs(int local_rank, const std::string& why) {
    for (const WorkerStatus& worker : group_.running_workers()) {
        if (worker.local_rank != local_rank || ledger_.is_settled()) continue;
        Failure& failure = ledger_.hangs(worker, why, unix_time_now_ms());
        fail(failure);
        gather_evidence(failure);
    }
}

// Looks at what the worker has left behind: its error file, its last words, the kernel's counters.
void RoundWorkers::gather_evidence(Failure& failure) {
    if (failure.signal == SIGKILL && failure.message.empty()) {
        OomSources sources = oom_;
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
        if (failure.message.empty()) failure.message = error->trouble;
        error_file_texts_[failure.rank] = error->file;
    }
    ++open_steps_;
    pump_.last_lines(failure.local_rank, alive_.guard([this, &failure](std::vector<std::string> lines) {
        failure.last_lines = std::move(lines);
        if (failure.hint.empty()) failure.hint = failure_hint(failure, hint_facts(options_, failure));
        step_done();
    }));
}

void RoundWorkers::group_gone(const std::vector<UnkillableWorker>& unkillable) {
    gate_.drop();
    raised_.cancel();
    slow_timer_.cancel();
    unkillable_ = unkillable;
    watch_.reset();
    features_.at(&Feature::round_over);
    if (has_traces_) tell_traces();
    for (std::size_t i = 0; i < options_.workers.size(); ++i) {
        ++open_steps_;
        pump_.finish(static_cast<int>(i), alive_.guard([this] { step_done(); }));
    }
    step_done();
}

void RoundWorkers::step_done() {
    if (--open_steps_ == 0) observer_.workers_gone(unkillable_);
}

WorkersGone RoundWorkers::gone() const {
    WorkersGone gone = ledger_.gone(file_state(options_.progress_file));
    features_.at(&Feature::told_gone, gone);
    return gone;
}

std::string RoundWorkers::error_file_text(int rank) const {
    const auto text = error_file_texts_.find(rank);
    return text == error_file_texts_.end() ? std::string() : text->second;
}

std::string RoundWorkers::logs_of(const Failure& failure) const {
    const std::string folder = pump_.log_folder();
    if (folder.empty() || failure.node_rank != options_.node_rank || failure.local_rank < 0) return {};
    std::string files;
    for (const OutputStream stream : {OutputStream::err, OutputStream::out}) {
        const std::string name = fmt::format("{}/{}.log", failure.local_rank, stream_name(stream));
        struct stat info {};
        if (::stat((folder + "/" + name).c_str(), &info) == 0 && info.st_size > 0)
            files += (files.empty() ? "" : ", ") + name;
    }
    if (files.empty()) return {};
    return fmt::format("{} (rank {}: {})", folder, failure.rank, files);
}

}  // namespace launch
}  // namespace ddprun
