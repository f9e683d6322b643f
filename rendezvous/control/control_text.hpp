// Control messages in words, for logs and users. Pure.
#pragma once

#include <chrono>
#include <string>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/secure/sealed_connection.hpp"

namespace ddprun {
inline namespace job {

// `joined 1/3, missing node 1, node 2`; by hosts where nodes have no numbers and a list is known.
std::string to_text(const Waiting& waiting);

// `node 1, node 2` or `gpu01, gpu02`, at most `limit` of them, and how many more.
std::string missing_text(const Waiting& waiting);

// `; there: node 0 (gpu00)`, to go behind the others; empty where nobody is listed.
std::string present_text(const Waiting& waiting);

// `rank 3 on node 1 (gpu01): exit code 7`, `rank 2 on node 0 (gpu00): does not answer, says rank 3 (exit code
// 1)`; the reason of a restart, as workers of the next round read it.
std::string to_text(const Failure& failure);

// `rank 3 on node 1 (gpu01): exit code 7; restart 1 of 3 in 500 ms`.
std::string to_text(const Restarting& restarting);

// `node 2 (gpu07) lost: no heartbeat for 5 s`; of a node that was lost.
std::string loss_text(const Failure& failure);

// `no heartbeat for 5 s`.
std::string silence_text(std::chrono::milliseconds limit);

// `node 1 (gpu07)`; of a node that has no number yet `gpu07`.
std::string node_text(int node_rank, const std::string& host);

// These sentences are said where two agents do not have the same secret. Fixed sentences: they go to who has
// proven nothing, and come from there.

// An agent without a secret, by a host that has one. Who looks for its job at several ports goes on with the
// next.
Refused secret_is_asked_for();

// To an agent with a secret: what has become of its call, which gave no proof.
Refused secret_is_of_no_use(Proof proof, const std::string& place);

}  // namespace job
}  // namespace ddprun
