// JobKnowledge has what an agent has learnt of its job, and says what that means. AgentMachine decides what
// follows. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_machine.hpp"
#include "launcher/agent/job_ending.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/stop/stop_consent.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/job/agent_status.hpp"

namespace ddprun {
inline namespace launch {

class JobKnowledge {
  public:
    explicit JobKnowledge(std::int64_t start_unix_ms) { known_.start_unix_ms = start_unix_ms; }

    // Keeps what the coordinator says; the texts of a round, which become the workers', are made harmless.
    // Returns nothing if the machine need not hear of the message.
    std::optional<AgentEvent> learn(const ControlMessage& message);

    // Takes a failure of a worker of this node. Called when the worker has failed, and again, with all that
    // is known, once all workers are gone.
    AgentEvent learn_failure(const Failure& failure);
    // Takes what the ranks of this node did before they were told to end, which counts until the
    // coordinator's last word tells of all.
    void learn_doings(const WorkersGone& gone);
    // Takes a terminating signal to this agent; `impatient`: it repeats an earlier one, so the user does not
    // want to wait any more.
    AgentEvent learn_signal(int signal, bool impatient);
    // Returns what the user is told of the signal at once, before it is learnt. Empty where no worker has to
    // end, where the signal changes nothing, and where another node says it on the screen that all share.
    std::string notice_of(int signal, AgentState state, const LaunchOptions& options) const;
    // Takes the reason for which the agent is to act as if it had been sent SIGTERM.
    AgentEvent learn_time_is_over(const std::string& reason);
    // Takes the reason for which the job is never joined.
    AgentEvent learn_refusal(const Refused& refused);
    // Takes the loss of the coordinator, or this node's loss by it, while a round ran. The loss is the first
    // failure, unless one is known already: then returns false.
    bool learn_loss(const CoordinatorLoss& loss, const LaunchOptions& options);

    const RoundReady& round() const { return known_.round; }
    const std::optional<Failure>& first_failure() const { return known_.first_failure; }
    const std::optional<Failure>& own_failure() const { return own_failure_; }
    int signal() const { return known_.signal; }
    bool is_hurried() const { return hurried_; }
    // Returns true if the coordinator or this agent has said the last word. Otherwise no goodbye is said to
    // the coordinator, since the job still gathers, or that word did not come.
    bool has_last_word() const { return known_.finish || known_.refusal; }

    // Returns the message for the coordinator that an action of the machine asks for; nothing for actions
    // without one, or that tell how the workers have ended.
    std::optional<ControlMessage> message_for(AgentAction action) const;

    // Returns the signal that ends the workers: a signal that one agent was sent reaches the workers of all
    // nodes; for every other cause it is SIGTERM.
    int stop_signal() const;
    // Returns why workers are stopped by this signal, as far as is known.
    StopCause stop_cause(int signal) const;
    // Returns why workers are stopped, as far as is known, for the end of a sentence.
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
