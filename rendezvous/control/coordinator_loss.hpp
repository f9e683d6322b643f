// How an agent loses its coordinator, and what is said of it. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline job {

struct CoordinatorLoss {
    enum class Kind {
        leaderless,  // it was lost, and no other one found
        unreached,   // the join deadline passed without a connection
        broken,      // the connection was closed or broke
        silent,      // no heartbeat
        given_up,    // it is this agent that was too long silent
        left,        // it leads the job no longer, or did not come to lead it
        stranger,  // what was reached ended the connection before it said anything: perhaps no coordinator at all
    };
    Kind kind = Kind::broken;
    std::string cause;
    // The coordinator's own machine has ended the connection, without a word: its agent is dead.
    bool is_dead = false;
};

// What was called has ended the connection before it said anything.
CoordinatorLoss stranger_loss(const Endpoint& called);
// It was connected, but has said nothing in time.
CoordinatorLoss unanswered_loss(const Endpoint& called);
// The lease is over, and of an agent that stood still also the time in which it asked: it has been given up if it stood
// still for as long as the limit.
CoordinatorLoss lease_loss(const HeartbeatLease& lease);
// The coordinator has given this agent up, and says why.
CoordinatorLoss given_up_loss(const std::optional<HeartbeatLease>& lease, const std::string& reason);

}  // namespace ddprun::inline job
