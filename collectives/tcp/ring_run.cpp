#include "collectives/tcp/ring_run.hpp"

#include <algorithm>
#include <array>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/call/task.hpp"

namespace ddprun {
inline namespace detail {

RingRun::RingRun(PeerMesh& mesh, const RingPlan& plan, const PeerMesh::Operation& operation)
    : mesh_(mesh),
      operation_(operation),
      plan_(plan),
      writer_(mesh.outgoing(plan.right, plan.lane, operation), operation.call) {
    skip_finished();
}

// A call goes round the ring like this; `out_` and `in_` are the step and the bytes of it that have been sent
// and received:
// 1. In step 0 push() sends this rank's own chunk, in step s what step s-1 has received, as far as it has
//    been reduced.
// 2. pull() receives the left neighbour's chunk: into the segment where it is to be reduced, else straight to
//    its place.
// 3. use_arrived() combines whole elements as they come with this rank's own, so that they can be sent on at
//    once.
// 4. The rank whose step completes a chunk finishes it (an average is divided); after that it is only handed
//    round.
// 5. skip_finished() goes on to the next step, and past chunks of no bytes; the end is when both have made
//    all steps.
bool RingRun::move() {
    // Sent before the left neighbour's connection is there, which may depend on what this rank sends.
    const bool moved = push();
    return pull() || moved;
}

Awaited RingRun::awaited() const {
    const bool receives = reader_ && can_receive();
    return {receives ? &reader_->link() : nullptr, can_send() ? &writer_.link() : nullptr, plan_.left};
}

RingChunk RingRun::chunk(int number) const {
    const RingChunk& whole = plan_.chunks[static_cast<std::size_t>(number)];
    const std::size_t first = std::min(whole.count, static_cast<std::size_t>(plan_.lane) * plan_.stride);
    const std::size_t count = std::min(plan_.stride, whole.count - first);
    if (count == 0) return {};
    const std::size_t offset = first * size_of(plan_.kind.type);
    std::byte* kept = whole.kept + first * size_of(plan_.kind.wire);
    return {whole.own + offset, kept, count, plan_.kind.compressed() ? whole.out + offset : nullptr};
}

bool RingRun::received() const {
    return reader_ && reader_->header_done() && in_.step == plan_.schedule.steps();
}

bool RingRun::sent() const { return writer_.header_done() && out_.step == plan_.schedule.steps(); }

bool RingRun::can_receive() const {
    if (!reader_->header_done()) return true;
    if (in_.step == plan_.schedule.steps()) return false;
    return receivable(bytes_of(chunk(plan_.schedule.receives(in_.step)))) > in_.done;
}

bool RingRun::can_send() const {
    if (!writer_.header_done()) return true;
    if (out_.step == plan_.schedule.steps()) return false;
    return sendable(bytes_of(chunk(plan_.schedule.sends(out_.step)))) > out_.done;
}

std::size_t RingRun::receivable(std::size_t size) const {
    // In the shared place, the chunk that step s receives replaces that of step s-1, which is sent in step s.
    const bool replaces = plan_.shared_keep && in_.step > 0 && in_.step + 1 < plan_.schedule.steps();
    if (!replaces || out_.step > in_.step) return size;
    return out_.step == in_.step ? std::min(size, out_.done) : 0;
}

std::size_t RingRun::sendable(std::size_t size) const {
    // Step s sends what step s-1 received; the first is this rank's own.
    if (out_.step == 0 || in_.step >= out_.step) return size;
    return in_.step + 1 == out_.step ? reduced_ : 0;
}

bool RingRun::pull() {
    if (!open_reader(reader_, mesh_, plan_.left, plan_.lane, operation_) || !can_receive()) return false;
    if (in_.step == plan_.schedule.steps()) {
        read_message(mesh_, *reader_, nullptr, 0, operation_);
    } else {
        const RingChunk current = chunk(plan_.schedule.receives(in_.step));
        in_.done += receive(current, receivable(bytes_of(current)));
        use_arrived(current);
    }
    skip_finished();
    return reader_->moved();
}

std::size_t RingRun::receive(const RingChunk& current, std::size_t limit) {
    const std::size_t open = limit - std::min(limit, in_.done);
    const bool reduces = plan_.schedule.reduces(in_.step);
    const std::size_t offset = in_.done % kRingSegment;
    std::byte* place = reduces ? plan_.segment.data() + offset : current.kept + in_.done;
    const std::size_t most = std::min(open, reduces ? kRingSegment - offset : kMaxMove);
    return read_message(mesh_, *reader_, place, most, operation_);
}

void RingRun::use_arrived(const RingChunk& current) {
    const bool reduces = plan_.schedule.reduces(in_.step);
    if (!reduces && !plan_.kind.compressed()) {
        reduced_ = in_.done;
        return;
    }
    const std::size_t element = size_of(plan_.kind.wire);
    const std::size_t whole = in_.done / element * element;
    if (whole == reduced_) return;
    const std::size_t count = (whole - reduced_) / element;
    if (reduces) reduce(current, count);
    if (plan_.kind.compressed() && (!reduces || plan_.schedule.completes(in_.step))) expand(current, count);
    reduced_ = whole;
}

void RingRun::reduce(const RingChunk& current, std::size_t count) {
    const WireKind& kind = plan_.kind;
    std::byte* kept = current.kept + reduced_;
    const std::byte* received = plan_.segment.data() + reduced_ % kRingSegment;
    const std::byte* own = current.own + reduced_ / size_of(kind.wire) * size_of(kind.type);
    if (kind.compressed()) return combine_compressed(kind, kept, received, own, count);
    combine(kind.op, kind.type, kept, received, own, count);
    if (kind.op == ReduceOp::avg && plan_.schedule.completes(in_.step)) {
        finish_average(kind.type, kept, count, plan_.averaged);
    }
}

void RingRun::expand(const RingChunk& current, std::size_t count) {
    const std::array<const void*, 1> kept{current.kept + reduced_};
    std::byte* out = current.out + reduced_ / size_of(plan_.kind.wire) * size_of(plan_.kind.type);
    combine_expanded(plan_.kind, out, kept, count);
}

bool RingRun::push() {
    if (!can_send()) return false;
    if (out_.step == plan_.schedule.steps()) {
        writer_.write(nullptr, 0);
        return writer_.moved();
    }
    const RingChunk current = chunk(plan_.schedule.sends(out_.step));
    const bool is_own = out_.step == 0 && !plan_.kind.compressed();
    const std::byte* source = is_own ? current.own : current.kept;
    const std::size_t open = sendable(bytes_of(current)) - out_.done;
    out_.done += writer_.write(source + out_.done, std::min(open, kMaxMove));
    const bool moved = writer_.moved();
    skip_finished();
    return moved;
}

void RingRun::skip_finished() {
    const int steps = plan_.schedule.steps();
    while (in_.step < steps && in_.done == bytes_of(chunk(plan_.schedule.receives(in_.step)))) {
        in_ = {in_.step + 1, 0};
        reduced_ = 0;
    }
    while (out_.step < steps && out_.done == bytes_of(chunk(plan_.schedule.sends(out_.step)))) {
        out_ = {out_.step + 1, 0};
    }
}

}  // namespace detail
}  // namespace ddprun
