// observed_call() makes what a process publishes of its calls a part of what was observed of its rank. Pure.
#pragma once

#include <chrono>

#include "launcher/look/call_reader.hpp"
#include "launcher/look/waits/wait_kind.hpp"
#include "launcher/verdict/observation.hpp"

namespace ddprun {
inline namespace launch {

// Returns the call as it was `now`. The rank is in it where its main thread waits there, or for another
// thread, which does: where the main thread does something else, calls go on beside it.
CollectiveCall observed_call(const PublishedCall& published, const Wait& main,
                             std::chrono::steady_clock::time_point now);

}  // namespace launch
}  // namespace ddprun
