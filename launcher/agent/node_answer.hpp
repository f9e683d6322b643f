// answer_to: what this node says to another node's Question.
#pragma once

#include "launcher/agent/feature.hpp"
#include "rendezvous/control/control_message.hpp"

namespace ddprun {
inline namespace launch {

// Says the first feature's answer in pieces of kMaxAnswerPiece, at once or later; or one Answer with the
// trouble: no feature knows the Question, or the job has no key, and the Question is not of a kind
// (kStatusQuestion) that is answered without one.
void answer_to(const Question& question, const Features& features, bool has_key, const SayAnswer& say);

}  // namespace launch
}  // namespace ddprun
