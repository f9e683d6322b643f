// Flow: messages from one rank to another and from a third to the first, moved at the same time without
// waiting.
//
// A large message is shared by the lanes of a connection; each lane is a flow of its own, with its own part
// of the data, and all run side by side; in a group of messages, also those of each peer. A flow borrows the
// memory it moves, and lives no longer than its call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "collectives/arithmetic/schedule.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/message.hpp"

namespace ddprun::inline detail {

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

// To be called when a reader's header is done: ends the communicator with `mismatch`, naming both calls,
// unless the sender is in the same call as `call`, which is the operation's or a member's of its group.
void require_same_call(PeerMesh& mesh, const MessageReader& reader, const Call& call,
                       const PeerMesh::Operation& operation);

}  // namespace ddprun::inline detail
