// SwapRun: an all-reduce of two ranks: each sends the other all it has, and reduces what comes as it comes.
// One lane's part.
//
// No byte waits for another rank's work, as in a ring. Both combine in the same order, so results are bitwise
// equal. f16 and bf16 travel as they are and are rounded once, since there is only one addition; compressed
// elements are rounded once before they travel.
#pragma once

#include <optional>
#include <span>

#include "collectives/arithmetic/wire_kind.hpp"
#include "collectives/tcp/flow.hpp"
#include "collectives/tcp/ring_run.hpp"
#include "collectives/wire/message.hpp"

namespace ddprun::inline detail {

struct SwapPlan {
    WireKind kind;
    const std::byte* own = nullptr;  // as it travels
    std::byte* out = nullptr;        // may be `own`, unless they are compressed
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
    // How far may be received: what is not yet reduced must fit into the segment.
    std::size_t receivable() const;
    bool received() const { return reader_ && reader_->header_done() && reduced_ == size(); }
    bool sent() const { return writer_.header_done() && sent_ == size(); }

    PeerMesh& mesh_;
    const PeerMesh::Operation& operation_;
    SwapPlan plan_;
    std::optional<MessageReader> reader_;
    MessageWriter writer_;
    std::size_t came_ = 0;     // bytes
    std::size_t reduced_ = 0;  // never more than were sent: `out` may be `own`
    std::size_t sent_ = 0;
};

}  // namespace ddprun::inline detail
