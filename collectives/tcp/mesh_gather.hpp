// Mesh gather: what each rank of a new communicator has to tell all others, before it can be used.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "collectives/arithmetic/tree_schedule.hpp"
#include "collectives/tcp/transfer.hpp"

namespace ddprun {

// Every rank's `mine`, by rank. Throws as PeerMesh::wait does, and LinkLost.
template <class T>
std::vector<T> gather_over_mesh(PeerMesh& mesh, const T& mine, PeerMesh::Operation operation) {
    static_assert(std::is_trivially_copyable_v<T>);
    const int n = mesh.world_size();
    const int rank = mesh.rank();
    operation.call.count = sizeof(T);
    std::vector<T> held(static_cast<std::size_t>(n));
    held[0] = mine;
    const auto bytes_from = [&](int place) {
        return reinterpret_cast<std::byte*>(held.data() + static_cast<std::size_t>(place));
    };
    for (int i = 0; i < dissemination_rounds(n); ++i) {
        const DisseminationRound round = dissemination_round(rank, n, i);
        const std::size_t size = static_cast<std::size_t>(round.blocks) * sizeof(T);
        transfer(mesh, {round.from, bytes_from(round.held), size}, {round.to, bytes_from(0), size},
                 operation);
    }
    // Held from this rank on; wanted from rank 0 on.
    std::rotate(held.begin(), held.begin() + (n - rank) % n, held.end());
    return held;
}

}  // namespace ddprun
