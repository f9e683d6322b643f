// can_be_true() says whether an agent may say what it says, from what the coordinator knows of it. Pure.
#pragma once

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/coordinator/job_summary.hpp"

namespace ddprun {
inline namespace job {

// Returns true if the message, which is of the node's current round, speaks of no workers but the node's own.
// Pure. Numbers that no job can have are refused before, where the bytes arrive (range_of).
bool can_be_true(const ControlMessage& message, const JobNode& from);

}  // namespace job
}  // namespace ddprun
