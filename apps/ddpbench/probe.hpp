// How fast two cores of this machine answer each other: the bound of what small messages can reach, printed
// before and after a measurement, since a virtual machine's cores may move.
#pragma once

namespace ddprun::inline app {

// Nanoseconds of one exchange of a flag between two threads, there and back; the median of several tries.
// Takes some milliseconds.
double probe_round_trip();

}  // namespace ddprun::inline app
