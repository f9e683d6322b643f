// JobMemory: what an agent remembers of its round, to tell it to a coordinator that takes over. Pure.
#pragma once

#include <optional>

#include "rendezvous/coordinator/control_message.hpp"

namespace ddprun {

class JobMemory {
  public:
    explicit JobMemory(int node_rank) : node_rank_(node_rank) {}

    // Every message of the coordinator.
    void learn(const ControlMessage& message);

    // As a member of the last round; nothing if there was none, or it is one that nobody takes over.
    std::optional<Following> following() const;
    // The newest list that it has heard of, whether it is on it or not.
    const std::optional<MemberList>& members() const { return members_; }

  private:
    void note_gone(int group_rank);

    int node_rank_;  // as its user gave it
    std::optional<MemberList> members_;
    std::optional<Following> following_;
};

}  // namespace ddprun
