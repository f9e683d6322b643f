// refined_wait() says of a wait what only the calls of the thread tell: that the socket, the lock or the
// processor is for other ranks, for the store or for a device. Pure.
#pragma once

#include <span>

#include "launcher/look/frame.hpp"
#include "launcher/look/waits/wait_kind.hpp"

namespace ddprun {
inline namespace launch {

// Returns the wait with the kind that the calls tell, and with the call as its object; the same wait where
// they tell nothing. The stacks are the thread's, from the innermost call on; either may be empty. A thread
// that runs waits if its innermost native call outside of the C library is a device's driver's, or one that
// turns in a circle until other ranks come. A wait for a file, a child and the like stays what it is.
Wait refined_wait(const Wait& wait, std::span<const Frame> python, std::span<const Frame> native);

}  // namespace launch
}  // namespace ddprun
