// Transfers: messages in and out at the same time, over a PeerMesh: one each way, or a group.
//
// All move as far as they can and wait for none in particular; so two ranks may send to each other any amount
// without ever filling the sockets' buffers into a standstill. Large messages go by all lanes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "collectives/arithmetic/schedule.hpp"
#include "collectives/call/task.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/message.hpp"

namespace ddprun::inline detail {

// A rank to send to or receive from, and the payload's place. Rank -1: that direction is not used.
struct Incoming {
    int from = -1;
    std::byte* data = nullptr;
    std::size_t size = 0;
};
struct Outgoing {
    int to = -1;
    const std::byte* data = nullptr;
    std::size_t size = 0;
};

// Returns when both messages are through.
void transfer(PeerMesh& mesh, const Incoming& in, const Outgoing& out, const PeerMesh::Operation& operation);

// Receives `size` bytes at `data` and hands them on as they come. from = -1: they are there already; to = -1:
// this rank is the last.
void relay(PeerMesh& mesh, int from, int to, std::byte* data, std::size_t size,
           const PeerMesh::Operation& operation);

// Carries out all `members`, sends and receives. Between two ranks messages keep their order in each
// direction; otherwise all go on at the same time.
void transfer_group(PeerMesh& mesh, std::span<const Task> members, const PeerMesh::Operation& operation);

// Every rank's `mine`, by rank: what the ranks of a new communicator have to tell each other. Throws as
// PeerMesh::wait does, and LinkLost.
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

}  // namespace ddprun::inline detail
