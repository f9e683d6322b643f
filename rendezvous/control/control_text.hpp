// to_text() and its siblings put control messages into words, for logs and users. Pure.
#pragma once

#include <chrono>
#include <string>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/secure/sealed_connection.hpp"

namespace ddprun {
inline namespace job {

// Returns `joined 1/3, missing node 1, node 2`; by hosts where nodes have no numbers and a list is known.
std::string to_text(const Waiting& waiting);

// Returns `node 1, node 2` or `gpu01, gpu02`: kMaxMissingListed at most, and how many more.
std::string missing_text(const Waiting& waiting);

// Returns `; there: node 0 (gpu00)`, to go behind the others; empty where no node is listed.
std::string present_text(const Waiting& waiting);

// Returns `rank 3 on node 1 (gpu01): exit code 7` or `rank 2 on node 0 (gpu00): does not answer, says rank 3
// (exit code 1)`. Workers of the next round read it as the reason of the restart.
std::string to_text(const Failure& failure);

// Returns `rank 3 on node 1 (gpu01): exit code 7; restart 1 of 3 in 500 ms`.
std::string to_text(const Restarting& restarting);

// Returns `node 2 (gpu07) lost: no heartbeat for 5 s`, for a node that was lost.
std::string loss_text(const Failure& failure);

// Returns `no heartbeat for 5 s`.
std::string silence_text(std::chrono::milliseconds limit);

// Returns `node 1 (gpu07)`; for a node that has no number yet `gpu07`.
std::string node_text(int node_rank, const std::string& host);

// The refusals of two agents that do not have the same secret. The sentences are fixed: each goes to a
// caller that has proven nothing, or comes from one.

// Refuses an agent without a secret, at a host that has one. An agent that looks for its job at several ports
// goes on with the next.
Refused secret_is_asked_for();

// Refuses an agent with a secret: says what came of its call to `place`, which proved nothing.
Refused secret_is_of_no_use(Proof proof, const std::string& place);

}  // namespace job
}  // namespace ddprun
