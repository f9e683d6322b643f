#include "collectives/transfer.hpp"

#include <algorithm>
#include <optional>

namespace ddprun {
namespace {

enum class Sends { at_once, what_was_received };

class Exchange {
  public:
    Exchange(PeerMesh& mesh, const Incoming& in, const Outgoing& out, Sends sends,
             const PeerMesh::Operation& operation)
        : mesh_(mesh), operation_(operation), in_(in), out_(out), sends_(sends) {
        if (out.to >= 0) writer_.emplace(mesh.outgoing(out.to, operation), operation.call);
    }

    void run() {
        // Sent before waiting for the sender's connection, which may depend on what this rank sends.
        bool moved = push();
        if (in_.from >= 0) reader_.emplace(mesh_.incoming(in_.from, operation_));
        while (!received() || !sent()) {
            if (!moved)
                mesh_.wait(received() ? nullptr : &reader_->link(), can_send() ? &writer_->link() : nullptr,
                           operation_);
            moved = pull();
            moved = push() || moved;
        }
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
    Incoming in_;
    Outgoing out_;
    Sends sends_;
    std::optional<MessageReader> reader_;
    std::optional<MessageWriter> writer_;
    std::size_t in_done_ = 0;
    std::size_t out_done_ = 0;
};

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
    Exchange(mesh, in, out, Sends::at_once, operation).run();
}

void relay(PeerMesh& mesh, int from, int to, std::byte* data, std::size_t size,
           const PeerMesh::Operation& operation) {
    Exchange(mesh, {from, data, size}, {to, data, size}, from < 0 ? Sends::at_once : Sends::what_was_received,
             operation)
        .run();
}

}  // namespace ddprun
