#include "collectives/session/joining.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "collectives/error.hpp"
#include "collectives/session/claim.hpp"
#include "collectives/session/departure.hpp"
#include "collectives/session/gathering.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// Says that this rank has read why there is no communicator; rank 0 waits until all have that are there.
void part(Gathering& gathering, const Joining& joining) {
    Departure departure = gathering.departure();
    departure.say_gone();
    if (joining.rank != 0) return;
    const std::vector<int> missing = gathering.missing();
    std::vector<int> present;
    for (int rank = 1; rank < joining.world_size; ++rank) {
        if (!std::binary_search(missing.begin(), missing.end(), rank)) present.push_back(rank);
    }
    departure.wait_for(present, kDepartureTimeout);
}

}  // namespace

Joined join_through(Store& store, const Joining& joining, const Member& self, Deadline deadline) {
    const std::string prefix = fmt::format("ddprun/communicators/{}/", joining.round);
    claim_rank(store, fmt::format("{}owner/{}", prefix, joining.rank), joining.rank, joining.owner);
    const std::int64_t instance = store.add(fmt::format("{}instance/{}", prefix, joining.rank), 1);
    Gathering gathering(store, {"join", "ranks"}, fmt::format("{}{}/", prefix, instance), joining.rank,
                        {joining.world_size, {}});
    try {
        Membership membership = gathering.run(self, deadline);
        membership.round = joining.round;
        membership.communicator = static_cast<std::uint32_t>(instance);
        return {std::move(membership), gathering.departure()};
    } catch (const CollectiveError&) {
        part(gathering, joining);
        throw;
    }
}

}  // namespace detail
}  // namespace ddprun
