#include "collectives/tcp/flow.hpp"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <optional>

#include "collectives/arithmetic/reduce.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// Being woken takes 20 us and more on a virtual machine.
constexpr std::chrono::microseconds kFlowSpin{50};

// Whether to look again at once, because what is awaited may come sooner than a sleeper would wake.
class SpinLimit {
  public:
    explicit SpinLimit(bool spins) : spins_(spins) {}

    void moved() noexcept { idle_ = false; }
    bool looks_again() {
        if (!spins_) return false;
        const auto now = Deadline::clock::now();
        if (!idle_) since_ = now;
        idle_ = true;
        // The peer may have been put on this rank's CPU, where it runs only if given the chance.
        if (now - since_ < kFlowSpin) return ::sched_yield() == 0;
        idle_ = false;
        return false;
    }

  private:
    bool spins_;
    bool idle_ = false;
    Deadline since_{};
};

// Ends the communicator with `mismatch`, naming both calls, unless the sender is in the same call.
void require_same_call(PeerMesh& mesh, const MessageReader& reader, const PeerMesh::Operation& operation) {
    const auto theirs = reader.header();
    const int peer = reader.link().peer();
    if (!theirs) {
        mesh.fail({CollectiveErrorCode::system,
                   {peer},
                   fmt::format("rank {} sent bytes that are no message", peer)},
                  operation);
    }
    if (*theirs != operation.call) mesh.fail_mismatch(operation.call, peer, *theirs, operation);
}

// Opens the reader of what a rank sends on a lane; false while that has not dialled.
bool open_reader(std::optional<MessageReader>& reader, PeerMesh& mesh, int from, int lane,
                 const PeerMesh::Operation& operation) {
    if (reader) return true;
    TcpLink* link = mesh.incoming(from, lane, operation);
    if (link != nullptr) reader.emplace(*link);
    return link != nullptr;
}

// Reads what has come of a message, up to `size` bytes of its payload, and compares its call once.
std::size_t read_message(PeerMesh& mesh, MessageReader& reader, std::byte* payload, std::size_t size,
                         const PeerMesh::Operation& operation) {
    const bool had_header = reader.header_done();
    const std::size_t count = reader.read(payload, size);
    if (!had_header && reader.header_done()) require_same_call(mesh, reader, operation);
    return count;
}

enum class Sends { at_once, what_was_received };

// One lane's part of a message from one rank, and of one to a rank, which may be another. A direction waits
// for nothing of the other one; but a relay sends only what it has received.
class Exchange final : public Flow {
  public:
    // Dials where this rank has not yet. what_was_received: as much each way.
    Exchange(PeerMesh& mesh, int lane, const Incoming& in, const Outgoing& out, Sends sends,
             const PeerMesh::Operation& operation)
        : mesh_(mesh), operation_(operation), lane_(lane), in_(in), out_(out), sends_(sends) {
        if (out.to >= 0) writer_.emplace(mesh.outgoing(out.to, lane, operation), operation.call);
    }

    bool move() override {
        // Sent before the sender's connection is there, which may depend on what this rank sends.
        const bool moved = push();
        return pull() || moved;
    }
    bool done() const override { return received() && sent(); }
    Awaited awaited() const override {
        return {!received() && reader_ ? &reader_->link() : nullptr, can_send() ? &writer_->link() : nullptr,
                received() ? -1 : in_.from};
    }

  private:
    bool received() const {
        return in_.from < 0 || (reader_ && reader_->header_done() && in_done_ == in_.size);
    }
    bool sent() const { return out_.to < 0 || (writer_->header_done() && out_done_ == out_.size); }
    std::size_t sendable() const { return sends_ == Sends::at_once ? out_.size : in_done_; }
    bool can_send() const { return !sent() && (!writer_->header_done() || out_done_ < sendable()); }
    bool pull() {
        if (received() || !open_reader(reader_, mesh_, in_.from, lane_, operation_)) return false;
        in_done_ += read_message(mesh_, *reader_, in_.data + in_done_,
                                 std::min(in_.size - in_done_, kMaxMove), operation_);
        return reader_->moved();
    }
    bool push() {
        if (!can_send()) return false;
        out_done_ += writer_->write(out_.data + out_done_, std::min(sendable() - out_done_, kMaxMove));
        return writer_->moved();
    }

    PeerMesh& mesh_;
    const PeerMesh::Operation& operation_;
    int lane_;
    Incoming in_;
    Outgoing out_;
    Sends sends_;
    std::optional<MessageReader> reader_;
    std::optional<MessageWriter> writer_;
    std::size_t in_done_ = 0;
    std::size_t out_done_ = 0;
};

// The lane's range of the bytes; a lane that is none of the message's has no rank.
template <class Message>
Message part_of_lane(Message whole, int Message::*end, int lanes, int lane) {
    const int used = whole.*end < 0 ? 0 : lanes_for(whole.size, lanes);
    if (lane >= used) {
        whole.*end = -1;
        return whole;
    }
    const Range part = chunk_range(whole.size, used, lane);
    whole.data += part.begin;
    whole.size = part.size;
    return whole;
}

// The two directions may have different lengths.
void exchange(PeerMesh& mesh, const Incoming& in, const Outgoing& out, Sends sends,
              const PeerMesh::Operation& operation) {
    std::array<std::optional<Exchange>, kMaxLanes> exchanges;
    std::array<Flow*, kMaxLanes> flows{};
    std::size_t used = 0;
    for (int lane = 0; lane < mesh.lanes(); ++lane) {
        const Incoming lane_in = part_of_lane(in, &Incoming::from, mesh.lanes(), lane);
        const Outgoing lane_out = part_of_lane(out, &Outgoing::to, mesh.lanes(), lane);
        if (lane_in.from < 0 && lane_out.to < 0) break;
        flows[used] = &exchanges[used].emplace(mesh, lane, lane_in, lane_out, sends, operation);
        ++used;
    }
    run_flows(mesh, std::span(flows).first(used), operation);
}

}  // namespace

void run_flows(PeerMesh& mesh, std::span<Flow* const> flows, const PeerMesh::Operation& operation) {
    SpinLimit spin_limit(mesh.spins());
    std::array<Awaited, kMaxLanes> awaited;
    while (true) {
        bool moved = false;
        std::size_t open = 0;
        for (Flow* flow : flows) {
            if (flow->done()) continue;
            moved = flow->move() || moved;
            if (!flow->done()) awaited[open++] = flow->awaited();
        }
        if (open == 0) return;
        if (moved) {
            spin_limit.moved();
        } else if (!spin_limit.looks_again()) {
            mesh.wait(std::span(awaited).first(open), operation);
        }
    }
}

void transfer(PeerMesh& mesh, const Incoming& in, const Outgoing& out, const PeerMesh::Operation& operation) {
    exchange(mesh, in, out, Sends::at_once, operation);
}

void relay(PeerMesh& mesh, int from, int to, std::byte* data, std::size_t size,
           const PeerMesh::Operation& operation) {
    exchange(mesh, {from, data, size}, {to, data, size}, from < 0 ? Sends::at_once : Sends::what_was_received,
             operation);
}

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
