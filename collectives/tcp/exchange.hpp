// Exchange: one lane's part of the messages from one rank, and to one rank, which may be another.
//
// Each direction takes its messages one after the other, in their order, and waits for nothing of the other
// direction; but a relay sends only what it has received.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "collectives/tcp/flow.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/message.hpp"

namespace ddprun {

// What is the lane's of a message. Everything is borrowed.
template <class Byte>
struct MessagePart {
    const Call* call = nullptr;
    Byte* data = nullptr;
    std::size_t size = 0;
};

enum class Sends { at_once, what_was_received };

class Exchange final : public Flow {
  public:
    // Without parts the direction is not used, and its rank means nothing.
    struct Incoming {
        int from = -1;
        std::span<const MessagePart<std::byte>> parts;
    };
    struct Outgoing {
        int to = -1;
        std::span<const MessagePart<const std::byte>> parts;
    };

    // Dials where this rank has not yet. what_was_received: one message of the same size each way.
    Exchange(PeerMesh& mesh, int lane, const Incoming& in, const Outgoing& out, Sends sends,
             const PeerMesh::Operation& operation);

    bool move() override;
    bool done() const override { return received() && sent(); }
    Awaited awaited() const override;

  private:
    bool received() const { return in_.parts.empty(); }
    bool sent() const { return out_.parts.empty(); }
    std::size_t sendable() const;
    bool can_send() const { return !sent() && (!writer_->header_done() || out_done_ < sendable()); }
    bool pull();
    bool push();

    PeerMesh& mesh_;
    const PeerMesh::Operation& operation_;
    int lane_;
    // The parts that are not through; the first is on its way.
    Incoming in_;
    Outgoing out_;
    Sends sends_;
    TcpLink* in_link_ = nullptr;  // null while the sender has not dialled
    TcpLink* out_link_ = nullptr;
    std::optional<MessageReader> reader_;
    std::optional<MessageWriter> writer_;
    std::size_t in_done_ = 0;
    std::size_t out_done_ = 0;
};

}  // namespace ddprun
