// Succession: how an agent finds the next coordinator when its own is lost. Pure; RendezvousLink carries the steps out.
//
// All members of a round know the same order: the host first, then by group rank. Each calls at the first one that
// may be alive; who cannot be reached, or does not lead after all, is passed over. When it is the agent's own turn it
// hosts a coordinator itself, until that leads the job or gives up. So those who can see each other meet at the first of
// them. After the last one it begins again, because others may notice the loss later.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/membership/member_list.hpp"

namespace ddprun::inline job {

class Succession {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    enum class Kind {
        call,   // at `member`
        host,   // begin a coordinator that would take over
        pause,  // and then ask for the next step
        end,    // nobody leads the job as far as this agent can see
    };
    struct Step {
        Kind kind = Kind::end;
        Member member;  // where to call; of `host` this agent itself
    };

    // Between two turns through all members.
    static constexpr std::chrono::milliseconds kPause{500};
    // How much longer than three times all take to notice the loss an agent looks for a coordinator.
    static constexpr std::chrono::seconds kSearchTime{10};

    // `own`: what the agent knows; its own rank says which member it is. It hosts only where it is listed with a port.
    Succession(Following own, TimePoint lost_at);

    // The first step, or the next one when the last has come to nothing.
    Step next(TimePoint now);

    // This member's agent is dead, or has left.
    void note_gone(int group_rank);

    // Whether the agent may follow a coordinator of this epoch; it then follows nobody of an older one.
    bool promise(int epoch);

    const Following& own() const { return own_; }
    // Then the next step is the end.
    TimePoint deadline() const { return deadline_; }

  private:
    bool is_candidate(const Member& member) const;

    Following own_;
    TimePoint deadline_;
    std::size_t place_ = 0;  // in the list, of the next one
};

}  // namespace ddprun::inline job
