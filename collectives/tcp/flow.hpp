// Flow, RingRun, SwapRun: messages in and out at the same time, over a PeerMesh: one each way, or a ring or
// swap that reduces them.
//
// All flows of a call move as far as they can and wait for none in particular. Two ranks may thus send each
// other any amount without filling the sockets' buffers into a standstill. Large messages go by all lanes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/arithmetic/schedule.hpp"
#include "collectives/call/backend.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun {
inline namespace detail {

// Flow: a message from this rank to another, and one to this rank from a third, moved at the same time
// without waiting.
//
// A large message is shared by the lanes of a connection. Each lane is a flow of its own, with its own part
// of the data, and all run side by side. A flow borrows the memory it moves, and lives no longer than its
// call.

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

// RingRun carries out one RingSchedule over a PeerMesh: sends and receives at the same time, reducing on the
// way.
//
// All steps of a rank are one message to the right and one from the left, for each lane, which takes the same
// part of every chunk. A byte of a chunk is sent on as soon as it has been received and reduced, so the steps
// overlap as far as data allows. No size can fill the sockets' buffers into a standstill: a rank that cannot
// send still receives.

// kRingSegment: bytes received at most before they are reduced, so that they are still in the cache; a
// multiple of every element.
inline constexpr std::size_t kRingSegment = kMaxMove;

// RingChunk says where one chunk lies on this rank.
struct RingChunk {
    // own: this rank's values: what it sends first, or combines with what it receives.
    const std::byte* own = nullptr;
    // kept: where the chunk is put when received, as it travels; may be `own`. For compressed elements, the
    // chunk that is sent first is there from the beginning.
    std::byte* kept = nullptr;
    std::size_t count = 0;     // elements
    std::byte* out = nullptr;  // for compressed elements the place of the results; may be `own`
};

struct RingPlan {
    RingSchedule schedule;
    WireKind kind;                      // compressed in an all_reduce only
    std::span<const RingChunk> chunks;  // by number
    std::span<std::byte> segment;       // kRingSegment bytes to receive into
    int left = 0;                       // ranks of the mesh
    int right = 0;
    int averaged = 1;  // the number by which ReduceOp::avg divides the complete sums
    int lane = 0;
    std::size_t stride = 0;  // elements of every chunk that are this lane's: [lane * stride, + stride)
    // shared_keep: all chunks but the last received share one `kept`, which may be overwritten once it has
    // been sent.
    bool shared_keep = false;
};

class RingRun final : public Flow {
  public:
    // Borrows everything in the plan.
    RingRun(PeerMesh& mesh, const RingPlan& plan, const PeerMesh::Operation& operation);

    // Moves what can be moved. The run is done when this rank has sent and received all its chunks.
    bool move() override;
    bool done() const override { return received() && sent(); }
    Awaited awaited() const override;

  private:
    struct Position {
        int step = 0;
        std::size_t done = 0;  // bytes of the step's chunk
    };

    bool pull();
    bool push();
    std::size_t receive(const RingChunk& current, std::size_t limit);
    void use_arrived(const RingChunk& current);
    // Combines `count` elements that have come with this rank's own.
    void reduce(const RingChunk& current, std::size_t count);
    // Expands the results of `count` compressed elements, from the first that was not yet ready.
    void expand(const RingChunk& current, std::size_t count);
    // Returns how many bytes of the step's chunk can be received, or sent, as far as the other direction
    // allows.
    std::size_t receivable(std::size_t size) const;
    std::size_t sendable(std::size_t size) const;
    bool received() const;
    bool sent() const;
    bool can_receive() const;
    bool can_send() const;
    // Returns this lane's part of a chunk.
    RingChunk chunk(int number) const;
    std::size_t bytes_of(const RingChunk& chunk) const { return chunk.count * size_of(plan_.kind.wire); }
    void skip_finished();

    PeerMesh& mesh_;
    const PeerMesh::Operation& operation_;
    RingPlan plan_;
    std::optional<MessageReader> reader_;
    MessageWriter writer_;
    Position in_;
    std::size_t reduced_ = 0;  // bytes of the chunk being received that are ready to be sent on
    Position out_;
};

// SwapPlan: one lane's part of an all-reduce of two ranks. Each sends the other all it has, and reduces what
// comes as it comes (SwapRun).
//
// Unlike in a ring, no byte waits for another rank's work. The two ranks combine in the same order, so
// results are bitwise equal. f16 and bf16 travel as they are and are rounded once, since there is only one
// addition; compressed elements are rounded once before they travel.
struct SwapPlan {
    WireKind kind;
    const std::byte* own = nullptr;  // as the elements travel
    std::byte* out = nullptr;        // may be `own`, unless the elements are compressed
    std::size_t count = 0;           // elements, of this lane
    std::span<std::byte> segment;    // kRingSegment bytes to receive into
    int peer = 0;                    // a rank of the mesh
    bool first = true;               // this rank's values are the first operand
    int lane = 0;
};

class SwapRun final : public Flow {
  public:
    // Borrows everything in the plan.
    SwapRun(PeerMesh& mesh, const SwapPlan& plan, const PeerMesh::Operation& operation);

    bool move() override;
    bool done() const override { return received() && sent(); }
    Awaited awaited() const override;

  private:
    bool pull();
    bool push();
    void reduce_arrived();
    std::size_t size() const { return plan_.count * size_of(plan_.kind.wire); }
    // Returns up to which byte may be received: what is not yet reduced must fit into the segment.
    std::size_t receivable() const;
    bool received() const { return reader_ && reader_->header_done() && reduced_ == size(); }
    bool sent() const { return writer_.header_done() && sent_ == size(); }

    PeerMesh& mesh_;
    const PeerMesh::Operation& operation_;
    SwapPlan plan_;
    std::optional<MessageReader> reader_;
    MessageWriter writer_;
    std::size_t came_ = 0;     // bytes
    std::size_t reduced_ = 0;  // never more than the bytes sent: `out` may be `own`
    std::size_t sent_ = 0;
};

}  // namespace detail
}  // namespace ddprun
