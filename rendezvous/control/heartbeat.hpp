// HeartbeatWatch (the coordinator's side) and HeartbeatLease (an agent's side) tell which of two connected
// sides has gone silent. Pure; times come from the caller's own steady clock, and times of two machines are
// never compared.
//
// The coordinator asks all agents at once, every third of the limit. A question has a number, and the number
// of the last answer that has come from this agent. The answer repeats the number of the question.
//
//   coordinator   an agent is lost when its answer is overdue by the limit: a period and the limit after
//                 the last sign of it
//   agent         knows when it gave the last answer that was heard, hence until when it cannot have been
//                 given up. A little before that time is over it has to give up by itself, so that its
//                 workers are on their way out before any other side counts them as lost. Questions that
//                 still come do not help if the answers are lost. An answer was heard if a later question
//                 says so, or if the system says that its bytes have arrived, which is looked for before an
//                 agent gives up.
//
// An answer that comes late is confirmed by a question at once, since its agent waits for that.
//
// An agent that stands still (stopped, frozen, its machine moved) must not take that for the other side's
// silence. An agent notices by its own timer, which fires much too late. The agent does not know what the
// others have done meanwhile; perhaps they stood still, too. Hence it asks for as long as the limit, from
// when it goes on:
//
//   coordinator   gives the agents the time again in which it did not ask them. No answer is confirmed
//                 before a quorum of the round has answered a question that was asked since (settle()): the
//                 coordinator may be in a minority by now, and then the agents that would go on with it must
//                 not
//   agent         answers whatever it is asked, and goes on when an answer that it has given since is
//                 confirmed. Once its lease is over its workers stand still until it knows
//                 (launcher/guardian: stopped, and killed if the answer is no or none comes), and it begins
//                 nothing. Nothing of the agent runs beside another round for longer than its guardian
//                 needs to see that the lease is over
//
// An agent that starts its workers may wait for the disk that their program is on. Therefore the agent is
// excused from RoundReady until it says that it has started them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
inline namespace job {

// LeaseEnd: until when (`at`) a node's workers may run without a word of their coordinator. For `patience`
// after that they stand still, as long as the word may yet come; then they are to be ended.
struct LeaseEnd {
    using TimePoint = std::chrono::steady_clock::time_point;

    LeaseEnd(TimePoint time, std::chrono::milliseconds waits = {}) : at(time), patience(waits) {}
    bool operator==(const LeaseEnd&) const = default;

    TimePoint at;
    std::chrono::milliseconds patience;
};

// HeartbeatTerms: the times that follow from the limit that the user sets.
struct HeartbeatTerms {
    std::chrono::milliseconds limit{0};  // 0: no heartbeats

    std::chrono::milliseconds period() const { return limit / 3; }
    std::chrono::milliseconds patience() const { return period() + limit; }
    // Returns how long before the coordinator's patience ends an agent acts.
    std::chrono::milliseconds margin() const { return limit / 10; }
    // kSilenceWithout: without heartbeats only the system tells that the other side is gone.
    static constexpr std::chrono::seconds kSilenceWithout{10};

    // Returns the silence after which the system itself ends a connection. With heartbeats that is left to
    // them, since a connection that comes back in time shall still be there. Only an agent that is excused is
    // noticed by the system, within the time for which a coordinator that takes the job over waits
    // (all_have_noticed()).
    std::chrono::milliseconds connection_silence() const {
        return limit.count() > 0 ? all_have_noticed() : kSilenceWithout;
    }
    std::chrono::milliseconds all_have_noticed() const { return patience() + period(); }
};

// HeartbeatWatch: the coordinator's side, for all agents.
class HeartbeatWatch {
  public:
    using ConnectionId = std::uint64_t;
    using TimePoint = std::chrono::steady_clock::time_point;

    explicit HeartbeatWatch(HeartbeatTerms terms) : terms_(terms) {}

    const HeartbeatTerms& terms() const { return terms_; }

    void add(ConnectionId agent, TimePoint now);
    void remove(ConnectionId agent) { peers_.erase(agent); }
    bool has(ConnectionId agent) const { return peers_.contains(agent); }

    // Asks this agent nothing until its next heartbeat or `until`, since it will be silent; the silence
    // counts from then.
    void excuse(ConnectionId agent, TimePoint until);

    // Notes that this side stands still from now on, or goes on. While it stands still no sign of an agent
    // gets a question back, since a question would say that this side goes on.
    void stand_still(bool still, TimePoint now) {
        if (std::exchange(is_still_, still) != still) next_question_ = now + terms_.period();
    }

    // Notes any message as a sign of its sender. Only a heartbeat (`beats`) ends an excuse, and returns a
    // question for the agent.
    std::optional<Heartbeat> seen(ConnectionId agent, bool beats, TimePoint now);

    // Notes an answer. Returns the question by which it is to be confirmed at once, if it comes late.
    std::optional<Heartbeat> answered(ConnectionId agent, const Heartbeat& answer);

    struct Turn {
        std::vector<std::pair<ConnectionId, Heartbeat>> questions;
        std::vector<ConnectionId> lost;  // not watched any more
    };

    // Moves the agents' deadlines by `late`, the time by which this call is late. Call it before any message
    // of the agents is taken in. A caller that is much too late stood still itself. Then questions to all
    // agents, excused ones too, are due at once, and this side is in doubt (is_in_doubt).
    void look(TimePoint now, TimePoint::duration late);
    void look(TimePoint now) { look(now, now - next_deadline().value_or(now)); }

    // Returns the questions and losses that are due. Called at next_deadline(), after look().
    Turn tick(TimePoint now);
    std::optional<TimePoint> next_deadline() const;

    // Asks all agents at once, whether that is due or not.
    std::vector<std::pair<ConnectionId, Heartbeat>> ask(TimePoint now);

    // Returns whether this agent cannot have given the coordinator up: the question that it has answered last
    // is not too old, however long the answer or the coordinator itself took.
    bool is_bound(ConnectionId agent, TimePoint now) const;

    // Returns whether this side stood still, and the others may have gone on without it. Until settle()
    // nothing is confirmed then, and this side's own lease does not move.
    bool is_in_doubt() const { return doubted_end_.has_value(); }
    // Returns how many agents have answered the last question.
    std::size_t answers() const { return answers_; }
    // Returns whether this agent has answered the last question, or (was_seen()) has given a sign since
    // `since`. An agent that is excused or not watched counts as there.
    bool has_answered(ConnectionId agent) const;
    bool was_seen(ConnectionId agent, TimePoint since) const;
    // Ends the doubt: the others have not gone on. Returns the questions that tell all agents so.
    std::vector<std::pair<ConnectionId, Heartbeat>> settle(TimePoint now);

    // Returns by when the coordinator must have asked again; after that all others have given it up. Nothing
    // where there are no others.
    std::optional<TimePoint> lease_end() const {
        if (doubted_end_ || peers_.empty()) return doubted_end_;
        return next_question_ + terms_.limit;
    }

  private:
    struct Peer {
        std::uint64_t answered = 0;   // the last number
        std::uint64_t confirmed = 0;  // the last answer of which the agent may hear that it has arrived
        TimePoint seen;
        std::optional<TimePoint> bound_since;  // when the last question that it has answered was asked
        std::optional<TimePoint> excused_until;
    };

    Heartbeat question_for(Peer& peer) const;

    HeartbeatTerms terms_;
    std::map<ConnectionId, Peer> peers_;
    std::uint64_t number_ = 0;              // of the last question
    std::size_t answers_ = 0;               // to that question
    std::optional<TimePoint> doubted_end_;  // of the lease, as it was before
    bool asks_excused_ = false;             // the next question, too
    bool is_still_ = false;
    TimePoint last_question_;
    TimePoint next_question_;  // of meaning while there are peers
    // first_loss_: no agent is lost before; computed at each question, not at each answer.
    TimePoint first_loss_;
};

// HeartbeatLease: an agent's side.
class HeartbeatLease {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // kMaxUnheard: how many answers are remembered until the agent hears that they have arrived. When there
    // are more, the newest takes the place of the one before it.
    static constexpr std::size_t kMaxUnheard = 16;

    // HeartbeatLease begins at `since`, when the agent said Hello.
    HeartbeatLease(HeartbeatTerms terms, TimePoint since) : terms_(terms), heard_(since), looked_(since) {}

    const HeartbeatTerms& terms() const { return terms_; }

    // Looks whether this agent stood still. Called at next_look(), and before any message of the coordinator
    // is taken in. An agent that calls much too late stood still, and asks from then on.
    void look(TimePoint now);
    TimePoint next_look() const { return std::min(deadline(), looked_ + terms_.period()); }
    // Returns how long the agent stood still, as far as it knows, if it asks.
    std::optional<std::chrono::steady_clock::duration> stood() const {
        return asks_since_ ? std::optional(stood_) : std::nullopt;
    }
    // Returns whether the agent asks, and its workers may not run meanwhile.
    bool is_in_doubt(TimePoint now) const { return asks_since_ && !suspended_ && now >= end(); }

    // Returns the answer to a question that came; the caller sends it now.
    Heartbeat answer(const Heartbeat& question, TimePoint now);

    // Suspends the lease until one of the two sides, which stands still meanwhile, gives the next sign: this
    // agent by resume(), or the coordinator by its next question.
    void suspend() { suspended_ = true; }
    // Begins the lease anew: the agent gives that sign now.
    void resume(TimePoint now);
    bool is_suspended() const { return suspended_; }

    // Ends the suspension: the agent has started its workers, and gives that sign. The end of the lease
    // stays, since a coordinator that would take the job over counts from then. If the start took longer than
    // the lease, the lease begins anew: this coordinator has excused the agent.
    void started(TimePoint now);

    // Notes that the other machine has received all answers until now. For an agent that asks that says
    // nothing: its coordinator may have given it up before.
    void all_arrived();

    // Returns when the agent has to stop its workers, or, while it asks, to let them stand still.
    TimePoint end() const { return heard_ + terms_.patience() - terms_.margin(); }
    // Returns whether the agent must give up the coordinator.
    bool is_over(TimePoint now) const { return !suspended_ && now >= deadline(); }
    // Returns when this agent may be counted as lost.
    LeaseEnd workers_end() const { return {end() + terms_.margin(), terms_.limit}; }

  private:
    struct Answer {
        std::uint64_t number = 0;
        TimePoint given;
    };

    TimePoint deadline() const { return asks_since_ ? std::max(end(), *asks_since_ + terms_.limit) : end(); }
    void hear(TimePoint given);

    HeartbeatTerms terms_;
    TimePoint heard_;  // when the last answer that was heard was given
    TimePoint looked_;
    std::optional<TimePoint> asks_since_;
    std::chrono::steady_clock::duration stood_{0};
    std::deque<Answer> unheard_;
    bool suspended_ = false;
};

// CoordinatorLoss: how an agent loses its coordinator, and what is said of it. Pure.
struct CoordinatorLoss {
    enum class Kind {
        leaderless,  // it was lost, and no other one found
        unreached,   // the join deadline passed without a connection
        broken,      // the connection was closed or broke
        silent,      // no heartbeat
        given_up,    // this agent was silent for too long
        left,        // the coordinator leads the job no longer, or did not come to lead it
        stranger,  // what was reached ended the connection before it said anything: perhaps no coordinator at
                   // all
    };
    Kind kind = Kind::broken;
    std::string cause;
    // is_dead: the coordinator's own machine has ended the connection, without a word: its agent is dead.
    bool is_dead = false;
};

// Returns the loss where the side that was called ended the connection before it said anything.
CoordinatorLoss stranger_loss(const Endpoint& called);
// Returns the loss where the called side was connected, but has said nothing in time.
CoordinatorLoss unanswered_loss(const Endpoint& called);
// Returns the loss of the coordinator by an agent when the lease is over; if the agent stood still, the time
// in which it asked is over, too. An agent that stood still for the limit or longer has been given up.
CoordinatorLoss lease_loss(const HeartbeatLease& lease);
// Returns the loss of an agent that the coordinator has given up, for the reason that it says.
CoordinatorLoss given_up_loss(const std::optional<HeartbeatLease>& lease, const std::string& reason);

}  // namespace job
}  // namespace ddprun
