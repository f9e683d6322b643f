// An agent keeps in mind of its round what it would tell a coordinator that takes over, and until when its workers may run
// where it hosts. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline job {

// Says where a member would host the coordinator. Port 0: nowhere.
Endpoint meeting_place_of(const Member& member);
std::vector<Endpoint> meeting_places_of(const MemberList& list);

// JobMemory remembers the round, to tell it to a coordinator that takes over.
class JobMemory {
  public:
    explicit JobMemory(int node_rank) : node_rank_(node_rank) {}

    // Hears every message of the coordinator.
    void learn(const ControlMessage& message);

    // Another member leads the job until the next round; `own` is what this agent has told it.
    void learn_leader(const Following& own, int group_rank);
    // Gives the member that leads. Only where following() is something.
    int leader() const { return leader_.value_or(following_->last.host_rank); }

    // Gives what it knows as a member of the last round; nothing if there was none, or it is one that nobody takes over.
    std::optional<Following> following() const;
    // Gives the newest list that it has heard of, whether it is on it or not.
    const std::optional<MemberList>& members() const { return members_; }

  private:
    void note_gone(int group_rank);

    int node_rank_;  // as its user gave it
    std::optional<MemberList> members_;
    std::optional<Following> following_;
    std::optional<int> leader_;  // if that is not the host of the last round
};

// HostLease knows until when the workers on the coordinator's own node may run without its word, as the coordinator says.
//
// Once it has ended the workers stand still, and are ended if the coordinator does not move it on: that does so when a
// quorum has said that the others did not go on meanwhile (heartbeat.hpp). A round that was to begin then does not.
// Created by RendezvousLink, used on its thread.
class HostLease {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    static constexpr const char* kEnded =
        "it stood still as a round began (stopped, or its machine was frozen), and the others may go on "
        "without it";

    void learn(const RoundLease& next) { last_ = next; }

    // The workers of this round may not be started.
    bool has_ended(int round, TimePoint now) const {
        return last_.end && last_.round == round && now >= last_.end->at;
    }

  private:
    RoundLease last_;
};

}  // namespace ddprun::inline job
