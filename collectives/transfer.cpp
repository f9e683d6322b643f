#include "collectives/transfer.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace ddprun {
namespace {

enum class Sends { at_once, what_was_received };

// One lane's part of a message each way.
class Exchange final : public Flow {
  public:
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
        const bool receives = !received() && reader_;
        return {receives ? &reader_->link() : nullptr, can_send() ? &writer_->link() : nullptr, in_.from};
    }

  private:
    bool received() const {
        return in_.from < 0 || (reader_ && reader_->header_done() && in_done_ == in_.size);
    }
    bool sent() const { return !writer_ || (writer_->header_done() && out_done_ == out_.size); }
    std::size_t sendable() const { return sends_ == Sends::at_once ? out_.size : in_done_; }
    bool can_send() const { return writer_ && (!writer_->header_done() || out_done_ < sendable()); }

    bool pull() {
        if (received()) return false;
        if (!reader_) {
            TcpLink* link = mesh_.incoming(in_.from, lane_, operation_);
            if (link == nullptr) return false;
            reader_.emplace(*link);
        }
        const bool had_header = reader_->header_done();
        in_done_ += reader_->read(in_.data + in_done_, std::min(in_.size - in_done_, kMaxMove));
        if (!had_header && reader_->header_done()) require_same_call(mesh_, *reader_, operation_);
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

// Each lane takes its range of the bytes; the two directions may have different lengths.
void exchange(PeerMesh& mesh, const Incoming& in, const Outgoing& out, Sends sends,
              const PeerMesh::Operation& operation) {
    const int in_lanes = in.from < 0 ? 0 : lanes_for(in.size, mesh.lanes());
    const int out_lanes = out.to < 0 ? 0 : lanes_for(out.size, mesh.lanes());
    std::array<std::optional<Exchange>, kMaxLanes> exchanges;
    std::array<Flow*, kMaxLanes> flows{};
    const int lanes = std::max(in_lanes, out_lanes);
    for (int lane = 0; lane < lanes; ++lane) {
        Incoming lane_in;
        Outgoing lane_out;
        if (lane < in_lanes) {
            const Range part = chunk_range(in.size, in_lanes, lane);
            lane_in = {in.from, in.data + part.begin, part.size};
        }
        if (lane < out_lanes) {
            const Range part = chunk_range(out.size, out_lanes, lane);
            lane_out = {out.to, out.data + part.begin, part.size};
        }
        const auto index = static_cast<std::size_t>(lane);
        flows[index] = &exchanges[index].emplace(mesh, lane, lane_in, lane_out, sends, operation);
    }
    run_flows(mesh, std::span(flows).first(static_cast<std::size_t>(lanes)), operation);
}

}  // namespace

void require_same_call(PeerMesh& mesh, const MessageReader& reader, const PeerMesh::Operation& operation) {
    const auto theirs = reader.header();
    const int peer = reader.link().peer();
    const std::string name = "rank " + std::to_string(peer);
    if (!theirs) {
        mesh.fail({CollectiveErrorCode::system, {peer}, name + " sent bytes that are no message"}, operation);
    }
    if (*theirs == on_wire(operation.call)) return;
    mesh.fail(mismatch_verdict(mesh.rank(), operation.call, peer, *theirs), operation);
}

void transfer(PeerMesh& mesh, const Incoming& in, const Outgoing& out, const PeerMesh::Operation& operation) {
    exchange(mesh, in, out, Sends::at_once, operation);
}

void relay(PeerMesh& mesh, int from, int to, std::byte* data, std::size_t size,
           const PeerMesh::Operation& operation) {
    exchange(mesh, {from, data, size}, {to, data, size}, from < 0 ? Sends::at_once : Sends::what_was_received,
             operation);
}

}  // namespace ddprun
