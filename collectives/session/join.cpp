#include "collectives/session/join.hpp"

#include <algorithm>

#include "collectives/error.hpp"

namespace ddprun {
namespace {

void claim_rank(Store& store, const std::string& key, const Joining& joining) {
    const std::string holder = store.compare_set(key, "", joining.owner);
    if (holder == joining.owner) return;
    throw CollectiveError(
        CollectiveErrorCode::system,
        "join: rank " + std::to_string(joining.rank) + " is taken already, by " + holder + "; this is " +
            joining.owner + ". Two processes have the same rank, or the store is left over from another job",
        {joining.rank}, "join");
}

// Says that this rank has read why there is no communicator; rank 0 waits until all have that are there.
void part(Gathering& gathering, const Joining& joining) {
    Farewell farewell = gathering.farewell();
    farewell.say_gone();
    if (joining.rank != 0) return;
    const std::vector<int> missing = gathering.missing();
    std::vector<int> present;
    for (int rank = 1; rank < joining.world_size; ++rank) {
        if (!std::binary_search(missing.begin(), missing.end(), rank)) present.push_back(rank);
    }
    farewell.wait_for(present, kFarewellPatience);
}

}  // namespace

Joined join_through(Store& store, const Joining& joining, const Member& self,
                    Gathering::Clock::time_point deadline) {
    const std::string prefix = "ddprun/communicators/" + std::to_string(joining.generation) + '/';
    const std::string rank = std::to_string(joining.rank);
    claim_rank(store, prefix + "owner/" + rank, joining);
    const std::int64_t instance = store.add(prefix + "instance/" + rank, 1);
    Gathering gathering(store, {"join", "ranks"}, prefix + std::to_string(instance) + '/', joining.rank,
                        {joining.world_size, {}});
    try {
        Membership membership = gathering.run(self, deadline);
        membership.generation = joining.generation;
        membership.communicator = static_cast<std::uint32_t>(instance);
        return {std::move(membership), gathering.farewell()};
    } catch (const CollectiveError&) {
        part(gathering, joining);
        throw;
    }
}

}  // namespace ddprun
