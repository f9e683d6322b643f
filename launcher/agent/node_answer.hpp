// answer_to: what this node says to another node's Question.
#pragma once

#include <vector>

#include "launcher/agent/feature.hpp"
#include "rendezvous/control/control_message.hpp"

namespace ddprun {
inline namespace launch {

// Returns the first feature's answer in pieces of kMaxAnswerPiece; or one Answer with the trouble: no feature
// knows the Question, or the job has no key, and the Question is not of a kind
// (kStatusQuestion) that is answered without one.
std::vector<Answer> answer_to(const Question& question, const Features& features, bool has_key);

}  // namespace launch
}  // namespace ddprun
