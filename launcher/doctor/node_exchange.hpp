// How the nodes of a `ddprun doctor` put together what they have found: by the store of the job whose workers they are.
//
//   word/<rank>      NodeWord; each node's, also node 0's own
//   roster           Roster, of those who have said a word in time
//   met/<round>      how many have done with that round of the tournament; failed: how many calls have failed
//   go/<round>       all have
//   tidings/<rank>   NodeTidings
//
// Every wait is bounded, and a node that falls silent costs its own report only.
#pragma once

#include <chrono>
#include <optional>

#include "launcher/doctor/cluster_report.hpp"
#include "launcher/doctor/meetings.hpp"
#include "rendezvous/store/store.hpp"

namespace ddprun::inline launch {

// How long node 0 waits for the words of the others, once it has said its own; and the others for the roster.
inline constexpr std::chrono::milliseconds kWordLimit{15'000};
inline constexpr std::chrono::milliseconds kRosterLimit{25'000};
// How much longer than a round may take the slowest of all is waited for.
inline constexpr std::chrono::milliseconds kRoundSlack{3'000};
// In which who was not reached at once is called again: what was lost on the way is sent again after a second.
inline constexpr std::chrono::milliseconds kSecondLook{2'000};
inline constexpr std::chrono::milliseconds kTidingsLimit{8'000};

struct NodeSeat {
    int rank = 0;
    int nodes = 1;
};

// One thread, which must be the only one of its process: who other names stand for is asked by a child. `meetings` listens
// at the port that `own` says. Returns the whole report on rank 0, nothing on the others. Throws as Store does.
std::optional<ClusterReport> exchange(Store& store, const NodeSeat& seat, const NodeWord& own,
                                      Meetings& meetings);

}  // namespace ddprun::inline launch
