// JobKnowledge has what an agent has learnt of its job, and what that means. Pure; what happens then is the
// AgentMachine's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_machine.hpp"
#include "launcher/agent/job_ending.hpp"
#include "launcher/agent/launch_options.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/job/agent_status.hpp"

namespace ddprun {
inline namespace launch {

class JobKnowledge {
  public:
    explicit JobKnowledge(std::int64_t start_unix_ms) { known_.start_unix_ms = start_unix_ms; }

    // Keeps what the coordinator says; texts of a round, which become the workers', harmless. Nothing if the
    // machine need not hear of it.
    std::optional<AgentEvent> learn(const ControlMessage& message);

    // A worker of this node has failed; told when it has, and again with what is known once all are gone.
    AgentEvent learn_failure(const Failure& failure);
    // A terminating signal has come for this agent; `impatient`: of a user who does not want to wait any
    // more.
    AgentEvent learn_signal(int signal, bool impatient);
    // Returns what the user is told of it at once, before it is learnt; empty where no worker has to end,
    // where it changes nothing, and where another node says it on the screen that all share.
    std::string notice_of(int signal, AgentState state, const LaunchOptions& options) const;
    // It is to act as if it had been sent SIGTERM, for this reason.
    AgentEvent learn_time_is_over(const std::string& reason);
    // The job is never joined, for this reason.
    AgentEvent learn_refusal(const Refused& refused);
    // While a round ran the coordinator was lost, or this node by it; perhaps that is the cause of all. False
    // if something was the cause before.
    bool learn_loss(const CoordinatorLoss& loss, const LaunchOptions& options);

    const RoundReady& round() const { return known_.round; }
    const std::optional<Failure>& first_failure() const { return known_.first_failure; }
    const std::optional<Failure>& own_failure() const { return own_failure_; }
    int signal() const { return known_.signal; }
    bool is_hurried() const { return hurried_; }
    // The coordinator or this agent has said the last word; else nobody says goodbye to the coordinator,
    // since the job still gathers, or that word did not come.
    bool has_last_word() const { return known_.finish || known_.refusal; }

    // Returns what the coordinator is told where the machine says so; nothing for actions that tell it
    // nothing, or how the workers have ended.
    std::optional<ControlMessage> message_for(AgentAction action) const;

    // A signal that one agent was sent reaches the workers of all nodes; everything else ends them by
    // SIGTERM.
    int stop_signal() const;
    // Why workers are stopped, as far as is known, in words that go behind others.
    std::string stop_reason() const;

    AgentStatus status(AgentState state, std::vector<WorkerStatus> workers) const;
    JobEnding ending() const;

  private:
    JobEnding known_;                     // its first failure is the one that the coordinator names
    std::optional<Failure> own_failure_;  // the first one of this node
    bool interrupted_ = false;            // by SIGINT
    bool hurried_ = false;
};

}  // namespace launch
}  // namespace ddprun
