// ElectionState is the state of an agent in the election of a job's host. Pure, as is the table below.
//
//   state       meaning
//   resting     no host is looked for: not yet, or the host was found and answers, or this agent gave up
//   racing      the agents try to be the first to write the key
//   following   another agent wrote the key; this one waits for its host's endpoint, or for the key's end
//   claiming    the host was lost: the members of its last round try to be the first to take its key
//   hosting     the key is this agent's, and its lease is kept
//   restoring   the lease of this host is over: it writes the key again, if no other agent was first
//   withdrawn   over
//
// An event that has no row in a state is no news there.
#pragma once

#include "rendezvous/base/transition_table.hpp"
#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace job {

enum class ElectionState { resting, racing, following, claiming, hosting, restoring, withdrawn };
BOOST_DESCRIBE_ENUM(ElectionState, resting, racing, following, claiming, hosting, restoring, withdrawn)

enum class ElectionEvent {
    campaign_asked,  // a host is to be found
    claim_asked,     // a member of the last round is to lead the job, this one or another
    publish_asked,   // it is known where this agent hosts
    record_asked,    // a round is to be recorded
    release_asked,   // this agent does not host after all
    host_found,      // the host was reached: no other host is looked for
    withdraw_asked,  // the job is over here
    key_won,         // the key was written by this agent
    key_taken,       // the key was written by another agent
    key_gone,        // the key does not exist any longer
    key_kept,        // the lease goes on
    lease_lost,      // the lease is over
    trouble,         // etcd cannot be asked now
    refused,         // etcd refuses, and will go on to do so
    unfit,           // this agent cannot lead the job, and as far as it knows no agent can
    too_late,        // the deadline has passed
};
BOOST_DESCRIBE_ENUM(ElectionEvent, campaign_asked, claim_asked, publish_asked, record_asked, release_asked,
                    host_found, withdraw_asked, key_won, key_taken, key_gone, key_kept, lease_lost, trouble,
                    refused, unfit, too_late)

enum class ElectionAction {
    none,      // what is being done goes on
    rest,      // nothing more is done
    race,      // write the key, if there is none
    follow,    // read which agent hosts and report it, then wait until that changes
    claim,     // take the key, if its host is gone and this agent may lead the job; else as `follow`
    lead,      // report that this agent leads the job, then keep the lease
    announce,  // report that this agent is elected, then keep the lease
    // keep: write where this agent hosts, and a new round that is to be recorded, then keep the lease
    keep,
    restore,     // write the key again, with a new lease
    give_up,     // report the reason
    drop_lease,  // end the lease: the key goes with it
};

struct ElectionStep {
    ElectionAction action = ElectionAction::none;
    ElectionState next = ElectionState::resting;
};

struct ElectionTable {
    using enum ElectionState;
    using E = ElectionEvent;
    using A = ElectionAction;

    // clang-format off
    static constexpr Transition<ElectionState, E, A> kRows[] = {
        {resting,   E::campaign_asked, A::race,       racing},
        {resting,   E::claim_asked,    A::claim,      claiming},
        {resting,   E::withdraw_asked, A::drop_lease, withdrawn},

        {racing,    E::claim_asked,    A::claim,      claiming},
        {racing,    E::key_won,        A::announce,   hosting},
        {racing,    E::key_taken,      A::follow,     following},
        {racing,    E::trouble,        A::race,       racing},
        {racing,    E::refused,        A::give_up,    resting},
        {racing,    E::too_late,       A::give_up,    resting},
        // The key may have been written before this agent knows of it.
        {racing,    E::host_found,     A::drop_lease, resting},
        {racing,    E::withdraw_asked, A::drop_lease, withdrawn},

        {following, E::key_taken,      A::follow,     following},
        {following, E::key_gone,       A::race,       racing},
        {following, E::trouble,        A::follow,     following},
        {following, E::refused,        A::give_up,    resting},
        {following, E::too_late,       A::give_up,    resting},
        {following, E::host_found,     A::rest,       resting},
        {following, E::campaign_asked, A::follow,     following},
        {following, E::claim_asked,    A::claim,      claiming},
        {following, E::record_asked,   A::follow,     following},
        {following, E::withdraw_asked, A::drop_lease, withdrawn},

        {claiming,  E::claim_asked,    A::claim,      claiming},
        {claiming,  E::key_won,        A::lead,       hosting},
        {claiming,  E::key_taken,      A::claim,      claiming},
        {claiming,  E::trouble,        A::claim,      claiming},
        {claiming,  E::refused,        A::give_up,    resting},
        {claiming,  E::unfit,          A::give_up,    resting},
        {claiming,  E::too_late,       A::give_up,    resting},
        // The key may have been written in this state, too.
        {claiming,  E::host_found,     A::drop_lease, resting},
        {claiming,  E::withdraw_asked, A::drop_lease, withdrawn},

        {hosting,   E::publish_asked,  A::keep,       hosting},
        {hosting,   E::record_asked,   A::keep,       hosting},
        {hosting,   E::claim_asked,    A::claim,      claiming},
        {hosting,   E::release_asked,  A::drop_lease, resting},
        {hosting,   E::key_kept,       A::keep,       hosting},
        {hosting,   E::trouble,        A::keep,       hosting},
        {hosting,   E::refused,        A::keep,       hosting},
        {hosting,   E::lease_lost,     A::restore,    restoring},
        {hosting,   E::withdraw_asked, A::drop_lease, withdrawn},

        {restoring, E::publish_asked,  A::restore,    restoring},
        {restoring, E::record_asked,   A::restore,    restoring},
        {restoring, E::claim_asked,    A::claim,      claiming},
        {restoring, E::key_won,        A::keep,       hosting},
        {restoring, E::key_taken,      A::follow,     following},
        {restoring, E::trouble,        A::restore,    restoring},
        {restoring, E::refused,        A::restore,    restoring},
        {restoring, E::withdraw_asked, A::drop_lease, withdrawn},
    };
    // clang-format on
};
static_assert(is_unambiguous(ElectionTable::kRows));

inline ElectionStep next_step(ElectionState state, ElectionEvent event) {
    const auto* row = find_transition(ElectionTable::kRows, state, event);
    return row != nullptr ? ElectionStep{row->action, row->next} : ElectionStep{ElectionAction::none, state};
}

inline constexpr int kElectionStates = static_cast<int>(ElectionState::withdrawn) + 1;
inline constexpr int kElectionEvents = static_cast<int>(ElectionEvent::too_late) + 1;

}  // namespace job
}  // namespace ddprun
