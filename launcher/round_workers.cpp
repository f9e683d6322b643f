#include "launcher/round_workers.hpp"

#include <sys/stat.h>

#include <chrono>

namespace ddprun {

std::string file_state(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return {};
    return std::to_string(info.st_ino) + ":" + std::to_string(info.st_size) + ":" +
           std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec);
}

RoundWorkers::RoundWorkers(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                           const LaunchOptions& options, const RoundReady& place, std::string host,
                           RoundEvents events)
    : options_(options),
      place_(place),
      host_(std::move(host)),
      events_(std::move(events)),
      group_(executor, runner,
             {.on_end = [this](const WorkerEnd& end) { ended(end); },
              .on_all_gone = [this](const auto& unkillable) { events_.on_gone(unkillable); }}) {}

void RoundWorkers::start() {
    if (!options_.progress_file.empty()) progress_before_ = file_state(options_.progress_file);
    std::vector<WorkerSpec> specs;
    for (std::size_t i = 0; i < options_.workers.size(); ++i) specs.push_back(spec(static_cast<int>(i)));
    auto refused = group_.start_all(specs);
    if (!refused) return;
    all_zero_ = false;
    failed_ = true;
    Failure failure = failure_of(refused->rank, refused->local_rank, 0);
    failure.exit_code = refused->failure.exit_code;
    failure.message = refused->failure.text;
    events_.on_failure(failure);
}

WorkerSpec RoundWorkers::spec(int local_rank) const {
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

    Environment environment = options_.environment;
    for (const auto& [name, value] : plan.additions) environment[name] = value;
    WorkerSpec spec;
    spec.argv = plan.argv;
    spec.environment = worker_environment(environment, identity);
    spec.rank = identity.rank;
    spec.local_rank = local_rank;
    spec.ignore_hangup = options_.hangup_ignored;
    return spec;
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
    record.manner = end.stopped_by_us ? RankEnd::Manner::stopped
                    : zero            ? RankEnd::Manner::succeeded
                                      : RankEnd::Manner::failed;
    ends_.push_back(record);
    if (record.manner != RankEnd::Manner::failed || std::exchange(failed_, true)) return;

    Failure failure = failure_of(end.rank, end.local_rank, end.pid);
    failure.exit_code = record.exit_code;
    failure.signal = record.signal;
    failure.core_dumped = record.core_dumped;
    events_.on_failure(failure);
}

Failure RoundWorkers::failure_of(int rank, int local_rank, pid_t pid) const {
    Failure failure{.kind = Failure::Kind::worker_failed, .node_rank = options_.node_rank, .host = host_};
    failure.rank = rank;
    failure.local_rank = local_rank;
    failure.pid = pid;
    // For people to read; a wall clock is the only one they share.
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    failure.unix_time_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    return failure;
}

bool RoundWorkers::progressed() const {
    return !options_.progress_file.empty() && file_state(options_.progress_file) != progress_before_;
}

}  // namespace ddprun
