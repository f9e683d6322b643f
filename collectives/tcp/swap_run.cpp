#include "collectives/tcp/swap_run.hpp"

#include <algorithm>
#include <array>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/tcp/ring_run.hpp"

namespace ddprun {
inline namespace detail {

SwapRun::SwapRun(PeerMesh& mesh, const SwapPlan& plan, const PeerMesh::Operation& operation)
    : mesh_(mesh),
      operation_(operation),
      plan_(plan),
      writer_(mesh.outgoing(plan.peer, plan.lane, operation), operation.call) {}

bool SwapRun::move() {
    bool moved = push();
    moved = pull() || moved;
    reduce_arrived();
    return moved;
}

Awaited SwapRun::awaited() const {
    const bool receives = reader_ && (!reader_->header_done() || came_ < receivable());
    return {receives ? &reader_->link() : nullptr, sent() ? nullptr : &writer_.link(), plan_.peer};
}

std::size_t SwapRun::receivable() const {
    return std::min(size(), reduced_ / kRingSegment * kRingSegment + kRingSegment);
}

bool SwapRun::pull() {
    if (!open_reader(reader_, mesh_, plan_.peer, plan_.lane, operation_)) return false;
    const std::size_t limit = receivable();
    if (reader_->header_done() && came_ == limit) return false;
    came_ +=
        read_message(mesh_, *reader_, plan_.segment.data() + came_ % kRingSegment, limit - came_, operation_);
    return reader_->moved();
}

bool SwapRun::push() {
    if (sent()) return false;
    sent_ += writer_.write(plan_.own + sent_, std::min(size() - sent_, kMaxMove));
    return writer_.moved();
}

void SwapRun::reduce_arrived() {
    const WireKind& kind = plan_.kind;
    const std::size_t element = size_of(kind.wire);
    const std::size_t whole = std::min(came_, sent_) / element * element;
    if (whole <= reduced_) return;
    const std::size_t count = (whole - reduced_) / element;
    std::byte* out = plan_.out + reduced_ / element * size_of(kind.type);
    const std::byte* theirs = plan_.segment.data() + reduced_ % kRingSegment;
    const std::byte* own = plan_.own + reduced_;
    const std::array<const void*, 2> operands{plan_.first ? own : theirs, plan_.first ? theirs : own};
    if (kind.compressed()) {
        combine_expanded(kind, out, operands, count);
    } else if (carries_f32(kind.op, kind.type)) {
        combine_all(kind.op, kind.type, out, operands, count);
    } else {
        combine(kind.op, kind.type, out, operands[0], operands[1], count);
        if (kind.op == ReduceOp::avg) finish_average(kind.type, out, count, 2);
    }
    reduced_ = whole;
}

}  // namespace detail
}  // namespace ddprun
