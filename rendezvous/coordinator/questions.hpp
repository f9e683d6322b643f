// Questions: what agents have asked all others, and the Answers that are still to come. Pure; owned by
// the Coordinator, which hands over each Question, each Answer and each node that is lost.
//
// Questions has no clock: an agent that asks waits as long as it likes, and what was asked kMaxOpen Questions
// ago is forgotten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>

#include "rendezvous/coordinator/job_summary.hpp"

namespace ddprun {
inline namespace job {

class Questions {
  public:
    // kMaxOpen: Questions of all agents that may await Answers at one time; a further one ends the oldest.
    static constexpr std::size_t kMaxOpen = 32;

    // Returns the Question for every connected node but the one that asks, under a number of this side's; or
    // one Answer of kNoNode to it where there is no such node.
    Messages ask(const JobNode& from, const Question& question, const JobNodes& nodes);

    // Returns the Answer for the agent that has asked; nothing where no Answer of this node is awaited.
    Messages answer(const JobNode& from, const Answer& answer);

    // Returns Answers in the place of those that this node does not give any more, and forgets what it asked.
    Messages lose(const JobNode& node);

  private:
    struct Open {
        std::uint64_t number = 0;    // of this side
        std::uint64_t asker = 0;     // the connection
        std::uint64_t asker_id = 0;  // of the Question there
        int asked = 0;
        std::set<std::uint64_t> awaited;  // connections
    };
    Outgoing passed_on(const Open& open, const JobNode& from, Answer answer) const;

    std::deque<Open> open_;  // the oldest first
    std::uint64_t last_number_ = 0;
};

}  // namespace job
}  // namespace ddprun
