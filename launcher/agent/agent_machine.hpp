// The AgentMachine says what an agent does next. Pure: a table over states and events; the Agent carries its
// actions out.
//
//   state            meaning
//   joining          not yet part of a round; connecting, or waiting for the other nodes
//   running          workers run
//   draining         all workers of this node ended with 0; the other nodes are still at work
//   stopping         the workers were told to end; the coordinator listens
//   stopping_alone   the workers were told to end; the coordinator is gone
//   stopping_leaderless  the same, and the members of the round look for another coordinator
//   seeking          no worker is left; another coordinator is being looked for
//   leaving          no worker is left; waiting for the coordinator's word: the end, or another round
//   rejoining        no worker is left; another round follows when nodes have come, or this one has a place
//                    in it
//   draining_output  the job is over here; what the workers printed is being shown
//   reporting        why the job ended is being shown and written down
//   saying_goodbye   the connection to the coordinator is being closed
//   awaiting_others  the other agents read how the job ended from the coordinator that this one hosts
//   done             nothing left to do
//
// Legal changes are the rows of the table in agent_machine.cpp; an event that has no row in a state is no
// news there (for example the end of a worker that was told to end).
#pragma once

#include <string>
#include <string_view>

#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace launch {

enum class AgentState {
    joining,
    running,
    draining,
    stopping,
    stopping_alone,
    stopping_leaderless,
    seeking,
    leaving,
    rejoining,
    draining_output,
    reporting,
    saying_goodbye,
    awaiting_others,
    done,
};
BOOST_DESCRIBE_ENUM(AgentState, joining, running, draining, stopping, stopping_alone, stopping_leaderless,
                    seeking, leaving, rejoining, draining_output, reporting, saying_goodbye, awaiting_others,
                    done)

enum class AgentEvent {
    round_ready,    // the coordinator says which nodes take part: ranks are known
    reminder_due,   // nothing new has been said for long
    place_awaited,  // the coordinator says that another round follows, but not when
    refused,  // the coordinator says no, or the join timeout has passed, or this node's coordinator failed
    connection_lost,    // the connection to the coordinator broke, or no other one was found
    leader_lost,        // the connection broke, and another coordinator is being looked for
    place_lost,         // a node that waited for a place lost its connection; it may join again as a newcomer
    led,                // another coordinator is there
    workers_succeeded,  // every worker of this node ended with 0
    worker_failed,      // a worker of this node failed, or could not be started
    workers_gone,       // no worker of this node is left
    stop_ordered,       // the coordinator says: the job has failed, stop
    finish_ordered,     // the coordinator says: the job is over on all nodes
    signal_received,    // this agent was sent a terminating signal
    interrupted_again,  // … by a user who does not want to wait any more
    finish_timed_out,   // the coordinator's last word did not come in time
    output_shown,       // all of it, or the console takes no more
    reported,
    goodbye_said,  // or there is no coordinator to say it to
    others_left,   // there is no other agent, or none left, or they take too long
};
BOOST_DESCRIBE_ENUM(AgentEvent, round_ready, reminder_due, place_awaited, refused, connection_lost,
                    leader_lost, place_lost, led, workers_succeeded, worker_failed, workers_gone,
                    stop_ordered, finish_ordered, signal_received, interrupted_again, finish_timed_out,
                    output_shown, reported, goodbye_said, others_left)

enum class AgentAction {
    none,
    join_again,      // connect to the coordinator anew
    remind,          // the user of what is still missing
    await_place,     // from now on remind the user of what is missing
    start_workers,   // with the ranks of round_ready
    report_success,  // tell the coordinator
    report_failure,  // tell the coordinator, and stop the workers
    report_signal,   // tell the coordinator, and forward the signal to the workers
    tell_signal,     // tell the coordinator only: the workers end already, and no restart may follow
    stop_workers,    // signal, grace period, SIGKILL
    kill_workers,    // SIGKILL now
    report_gone,     // tell the coordinator
    leave,           // close the connection, and show what is left of the output
    report,          // why the job ended
    await_goodbye,
    await_others,
    end,
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
inline constexpr int kAgentEvents = static_cast<int>(AgentEvent::others_left) + 1;

inline std::string_view to_text(AgentState state) { return name_of_value(state); }
inline std::string_view to_text(AgentEvent event) { return name_of_value(event); }
// Returns "running -> stopping by worker_failed", for --verbose. Empty where nothing changes, and from the
// report on, which is the last thing on the screen.
std::string transition_text(AgentState before, AgentEvent event, AgentState after);

}  // namespace launch
}  // namespace ddprun
