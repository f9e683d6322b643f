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
#include "collectives/call/backend.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun::inline detail {

// Flow: messages from one rank to another and from a third to the first, moved at the same time without
// waiting.
//
// A large message is shared by the lanes of a connection; each lane is a flow of its own, with its own part
// of the data, and all run side by side; in a group of messages, also those of each peer. A flow borrows the
// memory it moves, and lives no longer than its call.

// The most that one system call moves. The same in both directions: a rank that sends more in its turn than
// it receives fills the buffers between the two, out of the cache (measured: half as fast).
inline constexpr std::size_t kMaxMove = std::size_t{256} << 10;
// A lane that carries less costs more than it saves.
inline constexpr std::size_t kLeastPerLane = std::size_t{64} << 10;

class Flow {
  public:
    virtual ~Flow() = default;

    // Moves what can be moved now; false if that is nothing. Throws LinkLost, or as PeerMesh::fail does.
    virtual bool move() = 0;
    virtual bool done() const = 0;
    // The connections on which it depends at the moment.
    virtual Awaited awaited() const = 0;
};

// Moves them until all are done. Throws as move(), and as PeerMesh::wait.
void run_flows(PeerMesh& mesh, std::span<Flow* const> flows, const PeerMesh::Operation& operation);

// How many of a mesh's lanes a message of `bytes` is worth; the same for sender and receiver.
inline int lanes_for(std::size_t bytes, int lanes) {
    return std::clamp(static_cast<int>(std::min<std::size_t>(bytes / kLeastPerLane, kMaxLanes)), 1, lanes);
}

// Call this when a reader's header is done: ends the communicator with `mismatch`, naming both calls,
// unless the sender is in the same call as `call`, which is the operation's or a member's of its group.
void require_same_call(PeerMesh& mesh, const MessageReader& reader, const Call& call,
                       const PeerMesh::Operation& operation);

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
