// CoordinatorClaims decides what a coordinator may say to this agent, from what both know of the job. Pure;
// the CoordinatorClient asks. Numbers that no job can have are refused before, where the bytes arrive
// (range_of).
#pragma once

#include <cstddef>

#include "rendezvous/control/control_message.hpp"

namespace ddprun {
inline namespace job {

class CoordinatorClaims {
  public:
    explicit CoordinatorClaims(const Hello& own)
        : nnodes_(own.nnodes), workers_(own.local_world_size), wants_ends_(own.wants_rank_ends) {}

    // Returns false for what no coordinator of this job says. Returns true for the rest, and notes it.
    bool accept(const ControlMessage& message);

  private:
    bool accept_one(const RoundReady& ready);
    bool accept_one(const RankEnds& ends);
    bool accept_one(const Waiting& waiting) const;
    bool accept_one(const MemberList& list) const;
    template <typename Other>
    bool accept_one(const Other&) const {
        return true;
    }

    int nnodes_;
    int workers_;  // of this node
    bool wants_ends_;
    RoundReady round_{.round = -1};  // the last one
    std::size_t ends_ = 0;           // taken since then
};

}  // namespace job
}  // namespace ddprun
