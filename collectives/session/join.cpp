#include "collectives/session/join.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "collectives/error.hpp"

namespace ddprun::inline detail {
namespace {

void claim_rank(Store& store, const std::string& key, const Joining& joining) {
    const std::string holder = store.compare_set(key, "", joining.owner);
    if (holder == joining.owner) return;
    throw CollectiveError(
        CollectiveErrorCode::system,
        fmt::format("join: rank {} is taken already, by {}; this is {}. Two processes have the same rank, or "
                    "the store is left over from another job",
                    joining.rank, holder, joining.owner),
        {joining.rank}, "join");
}

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
    claim_rank(store, fmt::format("{}owner/{}", prefix, joining.rank), joining);
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

}  // namespace ddprun::inline detail
