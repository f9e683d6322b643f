// Heartbeats on the control connections: who of two sides that are still connected has gone silent. Pure; the
// times are of the caller's own steady clock, and none of two machines are ever compared.
//
// The coordinator asks all agents at once, a third of the limit apart. A question has a number, and the number of
// the last answer that was heard from this agent; the answer repeats the number of the question.
//
//   coordinator   an agent is lost when its answer is overdue by the limit, which is a period and the limit after
//                 the last sign of it
//   agent         knows when it gave the last answer that was heard, hence when it cannot have been given up yet. A
//                 little before that time is over it has to give up by itself, so that its workers are on their
//                 way out before anybody counts them as lost. Questions that still come do not help if the answers
//                 are lost. An answer was heard if a later question says so, or if the system says that its bytes
//                 have arrived, which is looked for before an agent gives up.
//
// An answer that comes late is confirmed by a question at once: its agent waits for that.
//
// While an agent starts its workers it waits for the disk that their program is on, and for nothing else; so it is
// excused from RoundReady on, until it says that it has done so.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/control/control_message.hpp"

namespace ddprun {

// What follows from the limit that the user sets.
struct HeartbeatTerms {
    std::chrono::milliseconds limit{0};  // 0: no heartbeats

    std::chrono::milliseconds period() const { return limit / 3; }
    std::chrono::milliseconds patience() const { return period() + limit; }
    // So long before the coordinator's patience ends an agent acts.
    std::chrono::milliseconds margin() const { return limit / 10; }
    // Without heartbeats only the system tells that nobody is there any more.
    static constexpr std::chrono::seconds kSilenceWithout{10};

    // When the system itself ends a connection. With heartbeats that is left to them, and a connection that comes
    // back in time shall still be there. Only who is excused is noticed by the system: not later than another coordinator,
    // which takes the job over, has given everybody to notice that they have lost this one (all_have_noticed()).
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

    // It will be silent, and is not asked, until it is seen again, or this time has come, from which it is then counted.
    void excuse(ConnectionId agent, TimePoint until);

    // Any message is a sign of its sender. After an excuse it waits for a question: that is returned.
    std::optional<Heartbeat> seen(ConnectionId agent, TimePoint now);

    // An answer came; the question by which it is to be confirmed at once, if it comes late.
    std::optional<Heartbeat> answered(ConnectionId agent, const Heartbeat& answer);

    struct Turn {
        std::vector<std::pair<ConnectionId, Heartbeat>> questions;
        std::vector<ConnectionId> lost;  // not watched any more
    };

    // To be called at next_deadline(). Who calls much too late stood still itself, with the questions unasked; then
    // the agents have the whole limit again.
    Turn tick(TimePoint now);
    std::optional<TimePoint> next_deadline() const;

    // Asks all at once, whether that is due or not.
    std::vector<std::pair<ConnectionId, Heartbeat>> ask(TimePoint now);

    // Whether this agent cannot have given the coordinator up: it has answered a question that is not too old, however
    // long the answer, or the coordinator itself, took.
    bool is_bound(ConnectionId agent, TimePoint now) const;

    // By then a coordinator that asks has asked again, and else all others have given it up. Nothing without others.
    std::optional<TimePoint> lease_end() const {
        if (peers_.empty()) return std::nullopt;
        return next_question_ + terms_.limit;
    }

  private:
    struct Peer {
        std::uint64_t answered = 0;  // the last number
        TimePoint seen;
        std::optional<TimePoint> bound_since;  // when the last question that it has answered was asked
        std::optional<TimePoint> excused_until;
    };

    HeartbeatTerms terms_;
    std::map<ConnectionId, Peer> peers_;
    std::uint64_t number_ = 0;  // of the last question
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
    HeartbeatLease(HeartbeatTerms terms, TimePoint since) : terms_(terms), heard_(since) {}

    const HeartbeatTerms& terms() const { return terms_; }

    // A question came; returns the answer, which goes out now.
    Heartbeat answer(const Heartbeat& question, TimePoint now);

    // The coordinator counts anew from the next sign of this agent on, or from its next question, since one of the two
    // will stand still until then.
    void suspend() { suspended_ = true; }
    // The agent gives that sign now.
    void resume(TimePoint now);
    bool is_suspended() const { return suspended_; }

    // It has started its workers, and gives that sign. What it knew before still holds, and no more: who would take the
    // job over counts from then. Only where the start took longer than that, it has this coordinator's word.
    void started(TimePoint now);

    // The other machine has received all answers until now.
    void all_arrived();

    // Then the agent has to stop its workers.
    TimePoint end() const { return heard_ + terms_.patience() - terms_.margin(); }

  private:
    struct Answer {
        std::uint64_t number = 0;
        TimePoint given;
    };

    HeartbeatTerms terms_;
    TimePoint heard_;  // the last answer that was heard was given then
    std::deque<Answer> unheard_;
    bool suspended_ = false;
};

}  // namespace ddprun
