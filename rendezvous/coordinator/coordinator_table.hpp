// next_step() says what the coordinator does next: a table over the job's states (CoordinatorState) and what
// happens to it (CoordinatorEvent). Pure; the Coordinator carries the actions out.
//
//   state       meaning
//   gathering        nodes say Hello; not all of them are there
//   running          workers run
//   stopping         there is a first failure, or another reason; the nodes stop their workers
//   judging          all workers are gone, and a program of the user's is asked what follows
//   pausing          all workers are gone, and another round follows
//   electing         the coordinator was lost, and this one would take over; not enough agents follow it
//   awaiting_return  another round follows once nodes have come for those that were lost
//   recording        another round follows once a register outside the job says that no other coordinator
//                    leads the job
//   moved            the job runs already, and its coordinator is elsewhere
//   over             every node was told how the job ended; the nodes leave one by one
//
// The rows are in coordinator_table.cpp. An event without a row in a state is no news there (for example a
// failure in a round that fails already).
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "rendezvous/control/control_message.hpp"

namespace ddprun {
inline namespace job {

enum class CoordinatorState : std::uint8_t {
    gathering,
    electing,
    running,
    stopping,
    judging,
    pausing,
    awaiting_return,
    recording,
    moved,
    over,
};

enum class CoordinatorEvent : std::uint8_t {
    hello,           // an agent says what it is
    all_joined,      // or as many as there may be
    last_call_over,  // enough have
    nodes_unfit,     // all have joined, but they cannot run this job together
    status_due,      // agents that wait may be told which nodes are missing
    join_timed_out,
    worker_failed,
    worker_dying,
    agent_signalled,
    node_leaves,    // its agent was signalled, but the job may go on without it
    resize_due,     // a node has come that may take part at once
    notice_signal,  // an agent was sent a signal that the workers shall get
    rank_ends,
    heartbeat,       // an agent's answer
    suspended,       // an agent will be silent for a while
    rank_succeeded,  // the first of one node
    exit_wait_due,   // the others have had their time after that, or the nodes theirs to say which ranks run
    still_running,   // one node says it
    overdue,         // ranks run that should have ended
    workers_succeeded,  // all of one node
    workers_gone,       // of one node
    goodbye,
    node_lost,        // the connection to its agent broke
    ended_node_lost,  // the connection broke, too, but the node's workers had ended
    all_ended,        // the last of all nodes' workers
    judgement_wanted,
    judged,
    judgement_overdue,
    restart_granted,
    restart_refused,
    pause_over,
    nodes_missing,  // for another round
    grace_runs,     // workers of a lost node may still be ending
    follows,        // an agent follows this coordinator
    elected,        // enough do
    was_decided,    // another round follows, as the coordinator before this one has said
    election_over,  // too few do
    quorum_lost,    // too few are left: the others may go on without these
    host_leaves,    // another round follows, but without the node that hosts this coordinator
    record_wanted,  // of another round
    recorded,
    deposed,    // the round cannot be recorded: another coordinator may lead the job
    job_moved,  // a caller says so
};

// NodeAction: what is done about nodes that come, go, or are told something.
enum class NodeAction : std::uint8_t {
    admit,           // unless there is a reason to refuse
    refuse,          // since the node comes too late
    enqueue,         // the node may take part later
    note_leaving,    // the node takes part in no other round
    forget,          // a node that left before the job began
    release,         // the agent has said goodbye
    tell_waiting,    // which nodes are there and which are not
    give_up,         // refuse all that have come
    refuse_all,      // as in give_up, but because the nodes do not fit
    admit_follower,  // and the following, while another coordinator is chosen
    forget_follower,
    note_follower,
    redirect,          // to where the job is
    move,              // all agents that are here, to where the job is
    tell_other_group,  // the host, that another coordinator leads a job like this one
    confirm,           // an answer that came late
    excuse,            // one that will be silent
};

// RoundAction: what is done about the workers of a round.
enum class RoundAction : std::uint8_t {
    start_round,   // ranks for all nodes
    resize,        // stop all, though nothing failed
    stop_all,      // this is the first failure
    stop_overdue,  // this is the first failure, too
    suspect,       // keep in mind which worker ended first, and tell the others
    contend,       // or perhaps this failure was first
    pass_on,       // to all agents
    begin_exit_wait,
    exit_wait_due,
    note_running,
    keep_ends,
    node_succeeded,
    node_gone,
};

// AftermathAction: what follows a round, or belongs to another coordinator.
enum class AftermathAction : std::uint8_t {
    none,
    decide,         // whether a restart follows
    ask_judge,      // whether a restart should follow
    settle,         // by the answer, or without one
    pause,          // announce the next round
    go_on_pausing,  // the coordinator before this one has announced it
    begin_again,    // with the nodes that are there
    await_return,   // of nodes that are not there
    record,         // the round that would be next
    take_over,      // the job as it is
    step_down,
    abort,   // the job ends, for the reason of the event
    finish,  // say how the job ended
};

struct CoordinatorAction {
    using enum NodeAction;
    using enum RoundAction;
    using enum AftermathAction;

    constexpr CoordinatorAction(NodeAction action) : about(action) {}
    constexpr CoordinatorAction(RoundAction action) : about(action) {}
    constexpr CoordinatorAction(AftermathAction action) : about(action) {}
    constexpr bool operator==(const CoordinatorAction&) const = default;

    std::variant<NodeAction, RoundAction, AftermathAction> about;
};

struct CoordinatorStep {
    CoordinatorAction action = CoordinatorAction::none;
    CoordinatorState next = CoordinatorState::gathering;
};

CoordinatorStep next_step(CoordinatorState state, CoordinatorEvent event);

// Gives the event that a message of an agent is; nothing for those that agents do not send.
std::optional<CoordinatorEvent> event_of(const ControlMessage& message);

// Returns the round that a message is about; nothing where it is about the job.
std::optional<int> round_of(const ControlMessage& message);

inline constexpr int kCoordinatorStates = static_cast<int>(CoordinatorState::over) + 1;
inline constexpr int kCoordinatorEvents = static_cast<int>(CoordinatorEvent::job_moved) + 1;

}  // namespace job
}  // namespace ddprun
