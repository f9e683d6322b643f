// AgentMachine: what an agent does next. Pure: a table over states and events; the Agent carries its actions
// out.
//
//   state            meaning
//   joining          not yet part of a round; connecting, or waiting for the other nodes
//   running          workers run
//   draining         all workers of this node ended with 0; the other nodes are still at work
//   stopping         the workers were told to end; the coordinator listens
//   stopping_alone   likewise, but the coordinator is gone
//   leaving          no worker is left; waiting for the coordinator's word: the end, or another round
//   done             nothing left to do
//
// Legal changes are the cells of the table in agent_machine.cpp; a cell without an action is an event that is
// no news in that state (for example the end of a worker that was told to end).
#pragma once

#include <string_view>

namespace ddprun {

enum class AgentState { joining, running, draining, stopping, stopping_alone, leaving, done };

enum class AgentEvent {
    round_ready,        // the coordinator says who takes part: ranks are known
    refused,            // the coordinator says no, or the join timeout has passed
    connection_lost,    // the connection to the coordinator broke
    workers_succeeded,  // every worker of this node ended with 0
    worker_failed,      // a worker of this node failed, or could not be started
    workers_gone,       // no worker of this node is left
    stop_ordered,       // the coordinator says: the job has failed, stop
    finish_ordered,     // the coordinator says: the job is over on all nodes
    signal_received,    // this agent was sent a terminating signal
    interrupted_again,  // … a second SIGINT: the user is in a hurry
    finish_timed_out,   // the coordinator's last word did not come in time
};

enum class AgentAction {
    none,
    join_again,      // connect to the coordinator anew
    start_workers,   // with the ranks of round_ready
    report_success,  // tell the coordinator
    report_failure,  // tell the coordinator, and stop the workers
    report_signal,   // tell the coordinator, and forward the signal to the workers
    tell_signal,     // tell the coordinator only: the workers end already, and no restart may follow
    stop_workers,    // signal, grace period, SIGKILL
    kill_workers,    // SIGKILL now
    report_gone,     // tell the coordinator
    say_goodbye,     // tell the coordinator, then leave
    leave,           // report and end
};

class AgentMachine {
  public:
    AgentState state() const { return state_; }

    // Changes the state and returns what is to be done now.
    AgentAction handle(AgentEvent event);

  private:
    AgentState state_ = AgentState::joining;
};

inline constexpr int kAgentStates = static_cast<int>(AgentState::done) + 1;
inline constexpr int kAgentEvents = static_cast<int>(AgentEvent::finish_timed_out) + 1;

std::string_view to_text(AgentState state);
std::string_view to_text(AgentEvent event);

}  // namespace ddprun
