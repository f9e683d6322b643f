// This decides what an agent may say of its workers. Pure. Numbers that no job can have are refused before,
// where the bytes arrive (range_of).
#pragma once

#include "rendezvous/coordinator/job_summary.hpp"

namespace ddprun::inline job {

// True if the message, which is of the node's current round, speaks of no workers but its own.
bool can_be_true(const ControlMessage& message, const JobNode& from);

}  // namespace ddprun::inline job
