// The states of an agent in the election of a job's host. Pure.
//
//   state       meaning
//   resting     nobody is looked for: not yet, or the host is found and answers, or the election was given up
//   racing      the agents try to be the first to write the key
//   following   another agent has written it; this one waits for where that hosts, or for the key's end
//   claiming    the host was lost: the members of its last round try to be the first to take its key
//   hosting     the key is this agent's, and its lease is kept
//   restoring   it was, but the lease is over: it is to be written again, if no other agent was first
//   withdrawn   over
//
// An event that has no row in a state is no news there.
#pragma once

#include <string_view>

#include "rendezvous/codec/description.hpp"

namespace ddprun::inline job {

enum class ElectionState { resting, racing, following, claiming, hosting, restoring, withdrawn };
BOOST_DESCRIBE_ENUM(ElectionState, resting, racing, following, claiming, hosting, restoring, withdrawn)

enum class ElectionEvent {
    campaign_asked,  // a host is to be found
    claim_asked,     // a member of the last round is to lead the job, this one or another
    publish_asked,   // it is known where this agent hosts
    record_asked,    // a round is to be recorded
    release_asked,   // this agent does not host after all
    host_found,      // the host was reached: nobody else is looked for
    withdraw_asked,  // the job is over here
    key_won,         // written, by this agent
    key_taken,       // written, by another one
    key_gone,        // there is none any longer
    key_kept,        // the lease goes on
    lease_lost,      // it does not
    trouble,         // etcd cannot be asked now
    refused,         // etcd says no, and will go on to do so
    unfit,           // this agent cannot lead the job, and as far as it knows nobody can
    too_late,        // the deadline has passed
};
BOOST_DESCRIBE_ENUM(ElectionEvent, campaign_asked, claim_asked, publish_asked, record_asked, release_asked,
                    host_found, withdraw_asked, key_won, key_taken, key_gone, key_kept, lease_lost, trouble,
                    refused, unfit, too_late)

enum class ElectionAction {
    none,      // what is being done goes on
    rest,      // nothing more is done
    race,      // write the key, if there is none
    follow,    // read who hosts and say so, then wait until that changes
    claim,     // take the key, if its host is gone and this agent may lead the job; else as `follow`
    lead,      // say that it does, then keep the lease
    announce,  // say that this agent is elected, then keep the lease
    keep,  // write where this agent hosts, and the round that is to be recorded, if that is new, then keep the lease
    restore,     // write the key again, by a new lease
    give_up,     // say why
    drop_lease,  // end it: the key goes with it
};

struct ElectionStep {
    ElectionAction action = ElectionAction::none;
    ElectionState next = ElectionState::resting;
};

ElectionStep next_step(ElectionState state, ElectionEvent event);

inline constexpr int kElectionStates = static_cast<int>(ElectionState::withdrawn) + 1;
inline constexpr int kElectionEvents = static_cast<int>(ElectionEvent::too_late) + 1;

}  // namespace ddprun::inline job
