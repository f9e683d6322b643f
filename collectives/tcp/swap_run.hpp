// SwapPlan: one lane's part of an all-reduce of two ranks. Each sends the other all it has, and reduces what
// comes as it comes (SwapRun).
//
// Unlike in a ring, no byte waits for another rank's work. The two ranks combine in the same order, so
// results are bitwise equal. f16 and bf16 travel as they are and are rounded once, since there is only one
// addition; compressed elements are rounded once before they travel.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/tcp/flow.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun {
inline namespace detail {

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
