#include "collectives/tcp/exchange.hpp"

#include <algorithm>

namespace ddprun {

Exchange::Exchange(PeerMesh& mesh, int lane, const Incoming& in, const Outgoing& out, Sends sends,
                   const PeerMesh::Operation& operation)
    : mesh_(mesh), operation_(operation), lane_(lane), in_(in), out_(out), sends_(sends) {
    if (sent()) return;
    out_link_ = &mesh.outgoing(out.to, lane, operation);
    writer_.emplace(*out_link_, *out_.parts.front().call);
}

bool Exchange::move() {
    // Sent before the sender's connection is there, which may depend on what this rank sends.
    const bool moved = push();
    return pull() || moved;
}

Awaited Exchange::awaited() const {
    return {received() ? nullptr : in_link_, can_send() ? out_link_ : nullptr, received() ? -1 : in_.from};
}

std::size_t Exchange::sendable() const {
    const bool at_once = sends_ == Sends::at_once || received();
    return at_once ? out_.parts.front().size : in_done_;
}

bool Exchange::pull() {
    if (received()) return false;
    if (in_link_ == nullptr) {
        in_link_ = mesh_.incoming(in_.from, lane_, operation_);
        if (in_link_ == nullptr) return false;
    }
    if (!reader_) reader_.emplace(*in_link_);
    const MessagePart<std::byte>& part = in_.parts.front();
    const bool had_header = reader_->header_done();
    in_done_ += reader_->read(part.data + in_done_, std::min(part.size - in_done_, kMaxMove));
    const bool moved = reader_->moved();
    if (!had_header && reader_->header_done()) require_same_call(mesh_, *reader_, *part.call, operation_);
    if (reader_->header_done() && in_done_ == part.size) {
        in_.parts = in_.parts.subspan(1);
        in_done_ = 0;
        reader_.reset();
    }
    return moved;
}

bool Exchange::push() {
    if (!can_send()) return false;
    const MessagePart<const std::byte>& part = out_.parts.front();
    out_done_ += writer_->write(part.data + out_done_, std::min(sendable() - out_done_, kMaxMove));
    const bool moved = writer_->moved();
    if (writer_->header_done() && out_done_ == part.size) {
        out_.parts = out_.parts.subspan(1);
        out_done_ = 0;
        if (!sent()) writer_.emplace(*out_link_, *out_.parts.front().call);
    }
    return moved;
}

}  // namespace ddprun
