// This says what the coordinator does next: a table over the job's states and what happens to it. Pure; the
// Coordinator carries the actions out.
//
//   state       meaning
//   gathering        nodes say Hello; not all of them are there
//   running          workers run
//   stopping         there is a first failure, or another reason; the nodes stop their workers
//   judging          all workers are gone, and a program of the user's is asked what follows
//   pausing          all workers are gone, and another round follows
//   electing         the coordinator was lost, and this is one that would take over; not enough follow it
//   awaiting_return  another round follows once nodes have come for those that were lost
//   recording        another round follows once a register outside the job says that nobody else leads the
//                    job
//   moved            the job runs already, and its coordinator is elsewhere
//   over             every node was told how it ended; they leave one by one
//
// The rows are in coordinator_table.cpp; what has none in a state is no news there (for example a failure in
// a round that fails already).
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
    hello,           // somebody says who it is
    all_joined,      // or as many as there may be
    last_call_over,  // enough have
    nodes_unfit,     // all have joined, but they cannot run this job together
    status_due,      // those who wait may be told who is missing
    join_timed_out,
    worker_failed,
    worker_dying,
    agent_signalled,
    node_leaves,    // its agent was signalled, but the job may go on without it
    resize_due,     // a node has come that may take part at once
    notice_signal,  // an agent was sent a signal that the workers shall get
    rank_ends,
    heartbeat,          // an agent's answer
    suspended,          // an agent will be silent for a while
    rank_succeeded,     // the first of one node
    exit_wait_due,      // others have had their time after that, or the nodes theirs to say who they are
    still_running,      // one node says it
    overdue,            // ranks run that should have ended
    workers_succeeded,  // all of one node
    workers_gone,       // of one node
    goodbye,
    node_lost,        // the connection to its agent broke
    ended_node_lost,  // its connection broke, too, but its workers had ended
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
    deposed,    // it cannot be recorded: somebody else may lead the job
    job_moved,  // somebody says it
};

// These actions are about those who come, go, and are told something.
enum class NodeAction : std::uint8_t {
    admit,           // unless there is a reason to refuse
    refuse,          // since it comes too late
    enqueue,         // it may take part later
    note_leaving,    // it takes part in no other round
    forget,          // a node that left before the job began
    release,         // it has said goodbye
    tell_waiting,    // who is there and who is not
    give_up,         // refuse all that have come
    refuse_all,      // as in give_up, but because they do not fit
    admit_follower,  // and the following, while another coordinator is chosen
    forget_follower,
    note_follower,
    redirect,          // to where the job is
    move,              // all that are here, to where the job is
    tell_other_group,  // the host, that another coordinator leads a job like this one
    confirm,           // an answer that came late
    excuse,            // one that will be silent
};

// These are about the workers of a round.
enum class RoundAction : std::uint8_t {
    start_round,   // ranks for everybody
    resize,        // stop all, though nothing failed
    stop_all,      // this is the first failure
    stop_overdue,  // this is the first failure, too
    suspect,       // keep in mind who ended first, and tell the others
    contend,       // or perhaps this was first
    pass_on,       // to all agents
    begin_exit_wait,
    exit_wait_due,
    note_running,
    keep_ends,
    node_succeeded,
    node_gone,
};

// These follow a round, or belong to another coordinator.
enum class AftermathAction : std::uint8_t {
    none,
    decide,         // whether a restart follows
    ask_judge,      // whether one should
    settle,         // by what was said, or without
    pause,          // announce it
    go_on_pausing,  // the coordinator before this one has announced it
    begin_again,    // with those who are there
    await_return,   // of those who are not
    record,         // the round that would be next
    take_over,      // the job as it is
    step_down,
    abort,   // the job ends, for this reason
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

// The round that a message is about; nothing where it is about the job.
std::optional<int> round_of(const ControlMessage& message);

inline constexpr int kCoordinatorStates = static_cast<int>(CoordinatorState::over) + 1;
inline constexpr int kCoordinatorEvents = static_cast<int>(CoordinatorEvent::job_moved) + 1;

}  // namespace job
}  // namespace ddprun
