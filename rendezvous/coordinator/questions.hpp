// Questions: what agents have asked others, and the Answers that are still to come. Pure; owned by
// the Coordinator, which hands over each Question, each Answer and each node that is lost.
//
// Questions has no clock: an agent that asks waits as long as it likes. No agent can make another one's work,
// or what is kept here, grow without bound: a node is asked no faster than it answers (kMaxOwed), and says no
// more than kMaxPieces. What one agent asks keeps no other from asking.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "rendezvous/coordinator/job_summary.hpp"

namespace ddprun {
inline namespace job {

class Questions {
  public:
    // kMaxOwed: Questions of one agent that one node may leave unanswered at one time. What that agent asks
    // beyond is not passed to that node.
    static constexpr int kMaxOwed = 8;
    // kMaxPieces: the most pieces of one Answer. What a node says beyond is not passed on.
    static constexpr int kMaxPieces = 1024;

    // Returns the Question for every connected node that is meant but the one that asks, under a number of
    // this side's, and Answers in the place of those that owe too many; or one Answer of kNoNode where there
    // is no such node.
    Messages ask(const JobNode& from, const Question& question, const JobNodes& nodes);

    // Returns the Answer for the agent that has asked; nothing where no Answer of this node is awaited.
    Messages answer(const JobNode& from, const Answer& answer);

    // Returns Answers in the place of those that this node does not give any more, for this reason, and
    // forgets what it asked.
    Messages lose(const JobNode& node, const std::string& why);

  private:
    struct Open {
        std::uint64_t asker = 0;     // the connection
        std::uint64_t asker_id = 0;  // of the Question there
        int asked = 0;
        std::map<std::uint64_t, int> awaited;  // by connection: how many pieces have come
    };
    using OpenQuestions = std::map<std::uint64_t, Open>;  // by the number of this side
    Outgoing passed_on(const Open& open, const JobNode& from, Answer answer) const;
    OpenQuestions::iterator settle(OpenQuestions::iterator open, std::uint64_t connection);

    OpenQuestions open_;
    std::map<std::pair<std::uint64_t, std::uint64_t>, int> owed_;  // by asker and asked: how many Questions
    std::uint64_t last_number_ = 0;
};

}  // namespace job
}  // namespace ddprun
