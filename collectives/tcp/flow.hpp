// Flow: a message from this rank to another, and one to this rank from a third, over a PeerMesh, moved at the
// same time without waiting.
//
// All flows of a call move as far as they can and wait for none in particular. Two ranks may thus send each
// other any amount without filling the sockets' buffers into a standstill. A large message is shared by the
// lanes of a connection. Each lane is a flow of its own, with its own part of the data, and all run side by
// side. A flow borrows the memory it moves, and lives no longer than its call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun {
inline namespace detail {

// kMaxMove: the most bytes that one system call moves, in either direction. A rank that sends more in its
// turn than it receives fills the buffers between the two, out of the cache (measured: half as fast).
inline constexpr std::size_t kMaxMove = std::size_t{256} << 10;
// kLeastPerLane: a lane that carries less costs more than it saves.
inline constexpr std::size_t kLeastPerLane = std::size_t{64} << 10;

class Flow {
  public:
    virtual ~Flow() = default;

    // Moves what can be moved now; returns false if that is nothing. Throws LinkLost, or as PeerMesh::fail
    // does.
    virtual bool move() = 0;
    virtual bool done() const = 0;
    // Returns the connections on which the flow depends at the moment.
    virtual Awaited awaited() const = 0;
};

// Opens the reader of what a rank sends on a lane; false while that has not dialled.
bool open_reader(std::optional<MessageReader>& reader, PeerMesh& mesh, int from, int lane,
                 const PeerMesh::Operation& operation);

// Reads what has come of a message, up to `size` bytes of its payload, and compares its call once: a sender
// in another call ends the communicator with `mismatch`.
std::size_t read_message(PeerMesh& mesh, MessageReader& reader, std::byte* payload, std::size_t size,
                         const PeerMesh::Operation& operation);

// Moves the flows until all are done. Throws as move(), and as PeerMesh::wait.
void run_flows(PeerMesh& mesh, std::span<Flow* const> flows, const PeerMesh::Operation& operation);

// Returns how many of a mesh's lanes a message of `bytes` is worth; the same for sender and receiver.
inline int lanes_for(std::size_t bytes, int lanes) {
    return std::clamp(static_cast<int>(std::min<std::size_t>(bytes / kLeastPerLane, kMaxLanes)), 1, lanes);
}

// Incoming: a rank to receive from, and the payload's place. Outgoing: likewise to send to. Rank -1: that
// direction is not used.
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

// Transfers both messages; returns when they are through.
void transfer(PeerMesh& mesh, const Incoming& in, const Outgoing& out, const PeerMesh::Operation& operation);

// Receives `size` bytes at `data` and hands them on as they come. from = -1: the bytes are there already; to
// = -1: this rank is the last.
void relay(PeerMesh& mesh, int from, int to, std::byte* data, std::size_t size,
           const PeerMesh::Operation& operation);

// Returns every rank's `mine`, by rank: what the ranks of a new communicator have to tell each other. Throws
// as PeerMesh::wait does, and LinkLost.
//
// The values go up a tree to rank 0 and down again, by two connections for each rank. The ranks of a host
// share its CPUs, so fewer connections save more than fewer steps.
template <class T>
std::vector<T> gather_over_mesh(PeerMesh& mesh, const T& mine, PeerMesh::Operation operation) {
    static_assert(std::is_trivially_copyable_v<T>);
    const int n = mesh.world_size();
    const int rank = mesh.rank();
    operation.call.count = sizeof(T);
    std::vector<T> held(static_cast<std::size_t>(n));
    held[static_cast<std::size_t>(rank)] = mine;
    // move: sends `count` of the values, or receives them.
    const auto move = [&](int from, int to, int first, int count) {
        auto* const data = reinterpret_cast<std::byte*>(held.data() + first);
        const std::size_t size = static_cast<std::size_t>(count) * sizeof(T);
        transfer(mesh, {from, data, size}, {to, data, size}, operation);
    };
    // The ranks below a rank in the tree are the next ones, up to its lowest set bit.
    int span = 1;
    for (; span < n && rank % (2 * span) == 0; span *= 2) {
        if (const int child = rank + span; child < n) move(child, -1, child, std::min(span, n - child));
    }
    if (rank > 0) {
        move(-1, rank - span, rank, std::min(span, n - rank));
        move(rank - span, -1, 0, n);
    }
    while (span /= 2) {
        if (rank + span < n) move(-1, rank + span, 0, n);
    }
    return held;
}

}  // namespace detail
}  // namespace ddprun
