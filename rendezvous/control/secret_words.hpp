// What is said where two agents do not have the same secret. Fixed sentences: they go to who has proven nothing, and come from
// there.
#pragma once

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/secure/sealed_connection.hpp"

namespace ddprun::inline job {

// An agent without a secret, by a host that has one. Who looks for its job at several ports goes on with the next.
Refused secret_is_asked_for();

// To an agent with a secret: what has become of its call, which gave no proof.
Refused secret_is_of_no_use(Proof proof);

}  // namespace ddprun::inline job
