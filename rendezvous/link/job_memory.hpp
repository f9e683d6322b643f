// JobMemory: what an agent remembers of its round, to tell it to a coordinator that takes over. Pure.
#pragma once

#include <optional>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline job {

// Where a member would host the coordinator. Port 0: nowhere.
Endpoint meeting_place_of(const Member& member);
std::vector<Endpoint> meeting_places_of(const MemberList& list);

class JobMemory {
  public:
    explicit JobMemory(int node_rank) : node_rank_(node_rank) {}

    // Every message of the coordinator.
    void learn(const ControlMessage& message);

    // Another member leads the job until the next round; `own` is what this agent has told it.
    void learn_leader(const Following& own, int group_rank);
    // The member that does. Only where following() is something.
    int leader() const { return leader_.value_or(following_->last.host_rank); }

    // As a member of the last round; nothing if there was none, or it is one that nobody takes over.
    std::optional<Following> following() const;
    // The newest list that it has heard of, whether it is on it or not.
    const std::optional<MemberList>& members() const { return members_; }

  private:
    void note_gone(int group_rank);

    int node_rank_;  // as its user gave it
    std::optional<MemberList> members_;
    std::optional<Following> following_;
    std::optional<int> leader_;  // if that is not the host of the last round
};

}  // namespace ddprun::inline job
