#include "launcher/agent/node_workers.hpp"

#include <fmt/core.h>

#include <utility>

#include "launcher/agent/job_terms.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/culprit.hpp"

namespace ddprun::inline launch {

NodeWorkers::NodeWorkers(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                         const LaunchOptions& options, LauncherLog& log, const Watchers& watchers)
    : executor_(executor),
      runner_(runner),
      options_(options),
      log_(log),
      watchers_(watchers),
      pump_(executor, options.output,
            {.temporary_folder = temporary_folder(options.environment),
             .in_run_folder = options.in_run_folder},
            [&log](const std::string& notice) { log.warn(notice); }) {
    // First, since it may fail: then nothing speaks by the pump.
    make_cache();
    log_.speak_by(&pump_);
}

void NodeWorkers::make_cache() {
    if (options_.workers.empty()) return;
    if (!options_.local_cache) {
        const bool is_asked = options_.nnodes > 1 && !options_.interpreter.empty();
        if (const auto shared = is_asked ? shared_cache(options_.environment) : std::nullopt)
            log_.info(
                fmt::format("{} is on a network file system, where compilers of all nodes meet; "
                            "--local-cache keeps their caches on each node",
                            harmless_line(*shared)));
        return;
    }
    cache_.emplace(temporary_folder(options_.environment));
    log_.debug("caches of compilers: " + cache_->folder().string());
    if (!cache_->is_local())
        log_.warn(fmt::format(
            "--local-cache: {} is on no file system of this machine; TMPDIR may name another folder",
            cache_->folder().parent_path().string()));
}

std::vector<std::string> NodeWorkers::close_output() {
    auto losses = pump_.stop();
    log_.speak_by(nullptr);
    return losses;
}

void NodeWorkers::warn_of(const std::vector<UnkillableWorker>& unkillable) {
    for (const UnkillableWorker& worker : unkillable)
        log_.error(to_string(worker) + " does not end even by SIGKILL; this node needs attention");
}

void NodeWorkers::announce(const Restarting& restarting) {
    // No report follows that would show the last words of a rank which is kept off the screen.
    const auto own = round_ ? round_->ledger().failure() : std::nullopt;
    if (own && own->rank == witness_of(restarting.cause)) pump_.replay_stderr(own->local_rank);
    log_.warn(to_text(restarting));
}

void NodeWorkers::start(const RoundReady& place, WorkerStation station, RoundEvents events) {
    station.host = host_name();
    if (cache_) station.caches = cache_->variables();
    number_ = place.round;
    events.on_notice = [this](const std::string& text) { log_.info(text); };
    events.on_end = [this](const WorkerEnded& end) { watchers_.learnt(end); };
    events.on_timer = [this](const TimerExpired& expired) { watchers_.learnt(expired); };
    events.on_warning = [this](const std::string& text) { log_.warn(text); };
    events.on_step = [this](const std::string& text) { log_.debug(text); };
    round_.emplace(executor_, runner_, pump_, options_, place, std::move(station), std::move(events));
    log_.debug(fmt::format("round {} of job {}", place.round, place.job_id));
    round_->start();
}

}  // namespace ddprun::inline launch
