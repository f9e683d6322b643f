// RingRun carries out one RingSchedule over a PeerMesh: sends and receives at the same time, reducing on the
// way.
//
// All steps of a rank are one message to the right and one from the left, for each lane, which takes the same
// part of every chunk. A byte of a chunk is sent on as soon as it has been received and reduced, so the steps
// overlap as far as data allows. No size can fill the sockets' buffers into a standstill: a rank that cannot
// send still receives.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/arithmetic/schedule.hpp"
#include "collectives/tcp/flow.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun {
inline namespace detail {

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

}  // namespace detail
}  // namespace ddprun
