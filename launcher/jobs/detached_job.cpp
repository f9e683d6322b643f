#include "launcher/jobs/detached_job.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/jobs/detach.hpp"
#include "launcher/jobs/job_folder.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline launch {
namespace {

constexpr const char* kRecordName = "job.json";
constexpr const char* kRoomName = ".result";
constexpr std::size_t kResultRoom = 64 * 1024;
// Some more than the result says of one.
constexpr std::size_t kRoomOfRank = 512;
constexpr const char* kRecordRoomName = ".job";
// What the record says more once the job has a name; some more than the longest file name.
constexpr std::size_t kRoomOfNames = 4096;

}  // namespace

ReservedFile reserve_result(const std::filesystem::path& folder) { return {folder / kRoomName, kResultRoom}; }

DetachedJob::DetachedJob(std::filesystem::path folder, const LaunchOptions& options,
                         std::vector<std::string> command, ReservedFile room, OwnedDescriptor starter)
    : folder_(std::move(folder)),
      claim_(folder_),
      options_(options),
      room_(std::move(room)),
      starter_(std::move(starter)) {
    record_.entry_name = options.entry_name;
    record_.command = std::move(command);
    std::error_code unknown;
    record_.directory = std::filesystem::current_path(unknown).string();
    record_.node_rank = options.node_rank;
    record_.nnodes = options.nnodes;
    record_.workers = static_cast<int>(options.workers.size());
    record_.pid = ::getpid();
    const auto self = read_process_stat(record_.pid);
    if (!self) fail(Errc::refused, "cannot detach: /proc does not show this process");
    record_.start_time = self->start_time;
    record_.start_unix_ms = unix_time_now_ms();
    const std::filesystem::path path = folder_ / kRecordName;
    const std::string text = to_json(record_);
    if (const auto error = replace_file(path, text)) fail_record(error);
    record_room_.emplace(folder_ / kRecordRoomName, text.size() + kRoomOfNames);
}

DetachedJob::~DetachedJob() {
    if (!published_) remove_starting_folder(folder_);
}

void DetachedJob::began(const boost::asio::any_io_executor& executor, const AgentControls& controls) {
    serve_job_control(executor, listen_job_control(folder_),
                      {.status = controls.status,
                       .effect_of = [this](int signal) { return effect_of(signal); },
                       .deliver = controls.signal});
}

void DetachedJob::workers_run(const RoundReady& place) {
    if (published_) return;
    record_.job_id = place.job_id;
    record_.node_rank = place.group_rank;
    record_.id = job_folder_name(place.job_id, place.group_rank, options_.nnodes);
    // The workers' output may have filled the disk by now.
    if (const auto error =
            record_room_->become(folder_ / kRecordRoomName, folder_ / kRecordName, to_json(record_)))
        fail_record(error);
    folder_ = publish_job_folder(folder_, record_.id);
    published_ = true;
    room_.grow(kResultRoom + kRoomOfRank * static_cast<std::size_t>(place.world_size));
    prune_jobs(folder_.parent_path());
    tell_started(std::move(starter_), record_.id);
}

std::optional<std::string> DetachedJob::ended(const JobResult& result) {
    const std::filesystem::path path = folder_ / "result.json";
    const auto error = room_.become(folder_ / kRoomName, path, to_json(result));
    if (!error) return std::nullopt;
    return fmt::format("'{}' cannot be written: {}", path.string(), error.message());
}

void DetachedJob::fail_record(const boost::system::error_code& error) const {
    const std::filesystem::path path = folder_ / kRecordName;
    throw Error(error, fmt::format("cannot write '{}': {}", path.string(), error.message()));
}

SignalEffect DetachedJob::effect_of(int signal) const {
    const auto& ending = options_.terminating_signals;
    const bool ends = std::find(ending.begin(), ending.end(), signal) != ending.end();
    if (ends && signal == SIGHUP && options_.hangup_ignored)
        return {.refusal = "SIGHUP was ignored when the launcher was started, and stays so"};
    if (ends || options_.forwarded_signals.contains(signal)) return {.ends_job = ends};
    return {.refusal = signal_text(signal) +
                       " is neither in the job's --signals-to-handle nor in its --forward or --requeue-on"};
}

}  // namespace ddprun::inline launch
