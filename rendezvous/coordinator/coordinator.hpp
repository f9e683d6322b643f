// Coordinator: the one decision-maker of a job. Pure: messages and times come in, messages go out.
//
// The coordinator decides which nodes take part, assigns ranks, names the first failure, and says when the
// job is over. What it does in which state stands in coordinator_table.cpp. Four values know and decide the
// rest, and each writes its own members only:
//
//   Roster      which nodes are here, refused or unfit; numbers, places and the list of hosts
//   Round       failures, ends, exit wait and signals of the round that runs
//   Aftermath   what follows a round: restarts, the judge, resizes, the queue, the nodes left out, the pause
//   Leadership  whether this coordinator leads the job: epoch, quorum, followers, lease, records
//
// Questions, a fifth, passes on what agents ask each other, in every state alike.
//
// Coordinator moves through the table and carries each action out by these values.
//
// A single caller on one thread (RendezvousServer, or a simulated network in tests) drives the coordinator.
// The caller hands over each message with its connection, tells of closed connections, and calls tick() at
// next_deadline(). The coordinator never blocks, reads no clock, and knows nothing of sockets, workers or
// grace periods.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/coordinator/aftermath.hpp"
#include "rendezvous/coordinator/coordinator_options.hpp"
#include "rendezvous/coordinator/coordinator_table.hpp"
#include "rendezvous/coordinator/job_summary.hpp"
#include "rendezvous/coordinator/leadership.hpp"
#include "rendezvous/coordinator/questions.hpp"
#include "rendezvous/coordinator/roster.hpp"
#include "rendezvous/coordinator/round.hpp"
#include "rendezvous/membership/quorum.hpp"

namespace ddprun {
inline namespace job {

// RoundLease: until when the workers of round `round` may run on the node that hosts the coordinator. Without
// `end` they may run for ever, and leases of all rounds are equal.
struct RoundLease {
    int round = 0;
    std::optional<LeaseEnd> end;

    bool operator==(const RoundLease& other) const {
        return end == other.end && (!end || round == other.round);
    }
};

class Coordinator {
  public:
    using ConnectionId = std::uint64_t;
    using TimePoint = std::chrono::steady_clock::time_point;
    using Outgoing = job::Outgoing;
    using Outbox = Messages;

    // kStartTimeout: how long an agent may take to start its workers, or to fail to do so.
    static constexpr std::chrono::seconds kStartTimeout{90};
    // kStandstill: a caller that comes this much later than next_deadline() stood still. With heartbeats
    // their limit counts instead.
    static constexpr std::chrono::seconds kStandstill{5};
    static constexpr std::chrono::seconds kKillTime = Aftermath::kKillTime;

    Coordinator(CoordinatorOptions options, TimePoint now);

    Outbox receive(ConnectionId from, const ControlMessage& message, TimePoint now);
    // Notes that a connection has ended; `closed_there`: by the agent's own machine.
    Outbox closed(ConnectionId connection, TimePoint now, bool closed_there = true);
    // Does what is due. Called at next_deadline(), after all that has arrived until then was received.
    Outbox tick(TimePoint now);
    std::optional<TimePoint> next_deadline() const;

    // Returns until when workers on this coordinator's own node may run if it stands still from now on.
    // Nothing: for ever, since no other coordinator would go on without it.
    std::optional<TimePoint> lease_end() const;

    // Returns whether this coordinator leads the job: a round has begun, or it has taken the job over.
    bool is_elected() const { return round_.has_run(); }

    // Returns what is to be recorded; nothing before the first round, and when the job is over for all.
    const std::optional<RecordWish>& wish() const { return leadership_.wish(); }
    Outbox learn(const RecordNews& news, TimePoint now);

    // Returns the number of the round that runs or is about to; each round needs an empty store.
    int round() const { return round_.number(); }

    // Returns whether the agent that said Hello on this connection has a place in the job, or waits for one.
    bool has_taken(ConnectionId connection) const;

    // Returns whether the job is over and every agent has left.
    bool empty() const;

  private:
    // Occasion: what happened: the node and the message that it is about, if there are any.
    struct Occasion {
        TimePoint now;
        const JobNode* node = nullptr;
        const ControlMessage* message = nullptr;
        ConnectionId from = 0;
    };

    void handle(CoordinatorEvent event, const Occasion& occasion);
    void act(NodeAction action, const Occasion& occasion);
    void act(RoundAction action, const Occasion& occasion);
    void act(AftermathAction action, const Occasion& occasion);
    void say(Messages messages);
    void say(ConnectionId to, ControlMessage message, bool close_after = false);

    void look_at_clock(TimePoint now);
    void watch(ConnectionId from, const Hello& hello, TimePoint now);
    void excuse(const JobNode& node, TimePoint now);
    void look_for_doubt(TimePoint now);

    void admit(ConnectionId from, const Hello& hello, TimePoint now);
    void admit_follower(ConnectionId from, const Hello& hello, TimePoint now);
    void enqueue(ConnectionId from, const Hello& hello, TimePoint now);
    void leave_queue(ConnectionId from);
    void refuse_unwanted();
    void lose(const JobNode& node, Roster::Loss loss, bool closed_there, TimePoint now);
    void note_leaving(const JobNode& node, const ControlMessage& message, TimePoint now);
    void release_leavers();
    void forget(const JobNode& node, TimePoint now);
    void look_who_is_there(const JobNode& node, TimePoint now);

    void begin_first_round(TimePoint now);
    void begin_again(TimePoint now);
    void begin_with_enough(TimePoint now);
    void start_round(TimePoint now);
    void stop(Failure cause, TimePoint now);
    void end_exit_wait(TimePoint now);
    void settle(const std::optional<Judgement>& judgement, TimePoint now);
    void take_over(TimePoint now);

    SharedOptions options_;
    CoordinatorState state_ = CoordinatorState::gathering;
    Messages out_;  // of the call that is being answered
    HeartbeatWatch heartbeats_;
    TimePoint last_call_;      // the caller's last one
    bool makes_sure_ = false;  // asks whether the nodes that are to take part are there
    Roster roster_;
    Round round_;
    Aftermath aftermath_;
    Leadership leadership_;
    Questions questions_;
};

}  // namespace job
}  // namespace ddprun
