// Heartbeats on the control connections: who of two sides that are still connected has gone silent. Pure; the
// times are of the caller's own steady clock, and none of two machines are ever compared.
//
// The coordinator asks all agents at once, a third of the limit apart. A question has a number, and the
// number of the last answer that was heard from this agent; the answer repeats the number of the question.
//
//   coordinator   an agent is lost when its answer is overdue by the limit, which is a period and the limit
//                 after the last sign of it
//   agent         knows when it gave the last answer that was heard, hence when it cannot have been given up
//                 yet. A little before that time is over it has to give up by itself, so that its workers are
//                 on their way out before anybody counts them as lost. Questions that still come do not help
//                 if the answers are lost. An answer was heard if a later question says so, or if the system
//                 says that its bytes have arrived, which is looked for before an agent gives up.
//
// An answer that comes late is confirmed by a question at once: its agent waits for that.
//
// An agent that stands still (stopped, frozen, its machine moved) must not take that for the other side's
// silence: its own timer that fires much too late tells. It does not know what the others have done
// meanwhile, perhaps they stood still, too. So it asks, for as long as the limit from when it goes on:
//
//   coordinator   gives the agents the time again in which nobody asked them, and confirms no answer before a
//                 quorum of the round has given one to a question that it has asked since (settle()): it may
//                 be a minority by now, and then those who would go on with it must not
//   agent         answers whatever it is asked, and goes on when an answer that it has given since is
//                 confirmed. Once its lease is over its workers stand still until it knows
//                 (launcher/guardian: stopped, and killed if the answer is no or none comes), and it begins
//                 nothing. So nothing of it runs beside another round, for longer than its guardian needs to
//                 see that the lease is over
//
// While an agent starts its workers it waits for the disk that their program is on, and for nothing else; so
// it is excused from RoundReady on, until it says that it has done so.
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

// Until when a node's workers may run without a word of their coordinator. For the patience after it they
// stand still, as long as it may yet come; then they are to be ended.
struct LeaseEnd {
    using TimePoint = std::chrono::steady_clock::time_point;

    LeaseEnd(TimePoint time, std::chrono::milliseconds waits = {}) : at(time), patience(waits) {}
    bool operator==(const LeaseEnd&) const = default;

    TimePoint at;
    std::chrono::milliseconds patience;
};

// HeartbeatTerms are what follows from the limit that the user sets.
struct HeartbeatTerms {
    std::chrono::milliseconds limit{0};  // 0: no heartbeats

    std::chrono::milliseconds period() const { return limit / 3; }
    std::chrono::milliseconds patience() const { return period() + limit; }
    // So long before the coordinator's patience ends an agent acts.
    std::chrono::milliseconds margin() const { return limit / 10; }
    // Without heartbeats only the system tells that nobody is there any more.
    static constexpr std::chrono::seconds kSilenceWithout{10};

    // When the system itself ends a connection. With heartbeats that is left to them, and a connection that
    // comes back in time shall still be there. Only who is excused is noticed by the system: not later than
    // another coordinator, which takes the job over, has given everybody to notice that they have lost this
    // one (all_have_noticed()).
    std::chrono::milliseconds connection_silence() const {
        return limit.count() > 0 ? all_have_noticed() : kSilenceWithout;
    }
    std::chrono::milliseconds all_have_noticed() const { return patience() + period(); }
};

// The coordinator's side, for all agents.
class HeartbeatWatch {
  public:
    using ConnectionId = std::uint64_t;
    using TimePoint = std::chrono::steady_clock::time_point;

    explicit HeartbeatWatch(HeartbeatTerms terms) : terms_(terms) {}

    const HeartbeatTerms& terms() const { return terms_; }

    void add(ConnectionId agent, TimePoint now);
    void remove(ConnectionId agent) { peers_.erase(agent); }
    bool has(ConnectionId agent) const { return peers_.contains(agent); }

    // It will be silent, and is not asked, until its next heartbeat, or this time has come, from which it is
    // then counted.
    void excuse(ConnectionId agent, TimePoint until);

    // This side stands still from now on, or goes on: a question meanwhile would say that it does.
    void stand_still(bool still, TimePoint now) {
        if (std::exchange(is_still_, still) != still) next_question_ = now + terms_.period();
    }

    // Any message is a sign of its sender, but only a heartbeat (`beats`) ends an excuse and has the question
    // that is returned.
    std::optional<Heartbeat> seen(ConnectionId agent, bool beats, TimePoint now);

    // An answer came; the question by which it is to be confirmed at once, if it comes late.
    std::optional<Heartbeat> answered(ConnectionId agent, const Heartbeat& answer);

    struct Turn {
        std::vector<std::pair<ConnectionId, Heartbeat>> questions;
        std::vector<ConnectionId> lost;  // not watched any more
    };

    // To be called before anything of the agents' is taken in, with how much later that is than it was due.
    // The agents have that time again. Who calls much too late stood still itself, with the questions
    // unasked; then also those that are excused are asked, as is due now, and all is in doubt.
    void look(TimePoint now, TimePoint::duration late);
    void look(TimePoint now) { look(now, now - next_deadline().value_or(now)); }

    // To be called at next_deadline(), after look().
    Turn tick(TimePoint now);
    std::optional<TimePoint> next_deadline() const;

    // Asks all at once, whether that is due or not.
    std::vector<std::pair<ConnectionId, Heartbeat>> ask(TimePoint now);

    // Whether this agent cannot have given the coordinator up: it has answered a question that is not too
    // old, however long the answer, or the coordinator itself, took.
    bool is_bound(ConnectionId agent, TimePoint now) const;

    // This side stood still, and the others may have gone on without it: until settle() nothing is confirmed,
    // and its own lease does not move.
    bool is_in_doubt() const { return doubted_end_.has_value(); }
    // How many have answered the last question.
    std::size_t answers() const { return answers_; }
    // Whether this agent has, or was seen just now; one that is excused, or not watched, is there in any
    // case.
    bool has_answered(ConnectionId agent) const;
    bool was_seen(ConnectionId agent, TimePoint since) const;
    // They have not. The questions by which all hear that.
    std::vector<std::pair<ConnectionId, Heartbeat>> settle(TimePoint now);

    // Says when a coordinator that asks must have asked again; later all others have given it up. Nothing
    // without others.
    std::optional<TimePoint> lease_end() const {
        if (doubted_end_ || peers_.empty()) return doubted_end_;
        return next_question_ + terms_.limit;
    }

  private:
    struct Peer {
        std::uint64_t answered = 0;   // the last number
        std::uint64_t confirmed = 0;  // the last of those of which it may hear that they have arrived
        TimePoint seen;
        std::optional<TimePoint> bound_since;  // when the last question that it has answered was asked
        std::optional<TimePoint> excused_until;
    };

    Heartbeat question_for(Peer& peer) const;

    HeartbeatTerms terms_;
    std::map<ConnectionId, Peer> peers_;
    std::uint64_t number_ = 0;              // of the last question
    std::size_t answers_ = 0;               // to it
    std::optional<TimePoint> doubted_end_;  // of the lease, as it was before
    bool asks_excused_ = false;             // the next question, too
    bool is_still_ = false;
    TimePoint last_question_;
    TimePoint next_question_;  // of meaning while there are peers
    // No agent is lost before; looked for at each question, not at each answer.
    TimePoint first_loss_;
};

// An agent's side.
class HeartbeatLease {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // Answers under way that are kept in mind: the first ones and the last.
    static constexpr std::size_t kMaxUnheard = 16;

    // `since`: when the agent said Hello.
    HeartbeatLease(HeartbeatTerms terms, TimePoint since) : terms_(terms), heard_(since), looked_(since) {}

    const HeartbeatTerms& terms() const { return terms_; }

    // To be called at next_look(), and before anything of the coordinator's is taken in. Who calls much too
    // late stood still, and asks from then on.
    void look(TimePoint now);
    TimePoint next_look() const { return std::min(deadline(), looked_ + terms_.period()); }
    // So long it stood still, as far as it knows, if it asks.
    std::optional<std::chrono::steady_clock::duration> stood() const {
        return asks_since_ ? std::optional(stood_) : std::nullopt;
    }
    // It asks, and its workers may not run meanwhile.
    bool is_in_doubt(TimePoint now) const { return asks_since_ && !suspended_ && now >= end(); }

    // A question came; returns the answer, which goes out now.
    Heartbeat answer(const Heartbeat& question, TimePoint now);

    // The coordinator counts anew from the next sign of this agent on, or from its next question, since one
    // of the two will stand still until then.
    void suspend() { suspended_ = true; }
    // The agent gives that sign now.
    void resume(TimePoint now);
    bool is_suspended() const { return suspended_; }

    // It has started its workers, and gives that sign. What it knew before still holds, and no more: who
    // would take the job over counts from then. Only where the start took longer than that, it has this
    // coordinator's word.
    void started(TimePoint now);

    // The other machine has received all answers until now. Of one that asks that says nothing: its
    // coordinator may have given it up before.
    void all_arrived();

    // Then the agent has to stop its workers, or, while it asks, to let them stand still.
    TimePoint end() const { return heard_ + terms_.patience() - terms_.margin(); }
    // … and give the coordinator up.
    bool is_over(TimePoint now) const { return !suspended_ && now >= deadline(); }
    // Then it may be counted as lost.
    LeaseEnd workers_end() const { return {end() + terms_.margin(), terms_.limit}; }

  private:
    struct Answer {
        std::uint64_t number = 0;
        TimePoint given;
    };

    TimePoint deadline() const { return asks_since_ ? std::max(end(), *asks_since_ + terms_.limit) : end(); }
    void hear(TimePoint given);

    HeartbeatTerms terms_;
    TimePoint heard_;  // the last answer that was heard was given then
    TimePoint looked_;
    std::optional<TimePoint> asks_since_;
    std::chrono::steady_clock::duration stood_{0};
    std::deque<Answer> unheard_;
    bool suspended_ = false;
};

// How an agent loses its coordinator, and what is said of it. Pure.

struct CoordinatorLoss {
    enum class Kind {
        leaderless,  // it was lost, and no other one found
        unreached,   // the join deadline passed without a connection
        broken,      // the connection was closed or broke
        silent,      // no heartbeat
        given_up,    // it is this agent that was too long silent
        left,        // it leads the job no longer, or did not come to lead it
        stranger,  // what was reached ended the connection before it said anything: perhaps no coordinator at
                   // all
    };
    Kind kind = Kind::broken;
    std::string cause;
    // The coordinator's own machine has ended the connection, without a word: its agent is dead.
    bool is_dead = false;
};

// The side that was called has ended the connection before it said anything.
CoordinatorLoss stranger_loss(const Endpoint& called);
// It was connected, but has said nothing in time.
CoordinatorLoss unanswered_loss(const Endpoint& called);
// The lease is over, and of an agent that stood still also the time in which it asked: it has been given up
// if it stood still for as long as the limit.
CoordinatorLoss lease_loss(const HeartbeatLease& lease);
// The coordinator has given this agent up, and says why.
CoordinatorLoss given_up_loss(const std::optional<HeartbeatLease>& lease, const std::string& reason);

}  // namespace job
}  // namespace ddprun
