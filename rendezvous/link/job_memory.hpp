// JobMemory remembers the agent's round, to tell it to a coordinator that takes over. Pure.
#pragma once

#include <optional>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
inline namespace job {

// Returns where a member would host the coordinator. Port 0: nowhere.
Endpoint meeting_place_of(const Member& member);
std::vector<Endpoint> meeting_places_of(const MemberList& list);

class JobMemory {
  public:
    explicit JobMemory(int node_rank) : node_rank_(node_rank) {}

    // Notes every message of the coordinator.
    void learn(const ControlMessage& message);

    // Notes that another member leads the job until the next round; `own` is what this agent has told it.
    void learn_leader(const Following& own, int group_rank);
    // Returns the member that leads. Only where following() is something.
    int leader() const { return leader_.value_or(following_->last.host_rank); }

    // Returns what this agent knows as a member of the last round. Nothing if there was no round, or the job
    // cannot be taken over.
    std::optional<Following> following() const;
    // Returns the newest list that this agent has heard of, whether it is on the list or not.
    const std::optional<MemberList>& members() const { return members_; }

  private:
    void note_gone(int group_rank);

    int node_rank_;  // as the node's user gave it
    std::optional<MemberList> members_;
    std::optional<Following> following_;
    std::optional<int> leader_;  // if the leader is not the host of the last round
};

}  // namespace job
}  // namespace ddprun
