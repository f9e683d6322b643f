#include "launcher/agent/node_workers.hpp"

#include <utility>

#include "launcher/agent/job_identity.hpp"
#include "rendezvous/coordinator/control_text.hpp"
#include "rendezvous/coordinator/culprit.hpp"

namespace ddprun {

NodeWorkers::NodeWorkers(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                         const LaunchOptions& options)
    : executor_(executor),
      runner_(runner),
      options_(options),
      pump_(executor, options.output, {.temporary_folder = temporary_folder(options.environment)},
            [this](const std::string& notice) { say(notice); }) {}

void NodeWorkers::say(const std::string& text) {
    if (!text.empty()) pump_.announce("ddprun: " + text);
}

void NodeWorkers::warn_of(const std::vector<UnkillableWorker>& unkillable) {
    for (const UnkillableWorker& worker : unkillable)
        say(to_string(worker) + " does not end even by SIGKILL; this node needs attention");
}

void NodeWorkers::announce(const Restarting& restarting) {
    // No report follows that would show the last words of a rank which is kept off the screen.
    const auto own = round_ ? round_->ledger().failure() : std::nullopt;
    if (own && own->rank == witness_of(restarting.cause)) pump_.replay_stderr(own->local_rank);
    say(to_text(restarting));
}

void NodeWorkers::start(const RoundReady& place, RoundEvents events) {
    number_ = place.round;
    events.on_notice = [this](const std::string& text) { inform(text); };
    events.on_word = [this](const std::string& text) { explain(text); };
    round_.emplace(executor_, runner_, pump_, options_, place, host_name(), std::move(events));
    explain("round " + std::to_string(place.round) + " of job " + place.job_id);
    round_->start();
}

}  // namespace ddprun
