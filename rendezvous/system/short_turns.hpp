// For threads that run for microseconds, and are to do so at once though all CPUs are busy.
#pragma once

namespace ddprun::inline base {

// Asks the scheduler for short turns of the calling thread, which come sooner. Linux 6.12 and later heed it,
// others ignore it; changes nothing for a thread of another scheduling class.
void ask_for_short_turns();

}  // namespace ddprun::inline base
