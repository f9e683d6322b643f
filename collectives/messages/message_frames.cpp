#include "collectives/messages/message_frames.hpp"

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "collectives/wire/tcp_link.hpp"

namespace ddprun {
inline namespace detail {
namespace {

constexpr std::uint32_t kFrameMagic = 0x314d'5444;  // "DTM1"

struct WireFrame {
    std::uint32_t magic = kFrameMagic;
    std::uint32_t kind = 0;
    std::uint32_t id = 0;
    std::uint32_t turn = 0;
    std::uint64_t tag = 0;
    std::uint64_t bytes = 0;
};

}  // namespace

void read_kind(MessageFrame& frame, std::uint64_t kind, int peer) {
    const std::uint64_t element = kind / kKinds;
    const bool fits = element <= std::numeric_limits<std::uint8_t>::max();
    if (!fits || (element > 0 && !is_known(static_cast<DataType>(element - 1))))
        throw LinkLost{peer, EBADMSG};
    frame.kind = static_cast<FrameKind>(kind % kKinds);
    frame.element = static_cast<std::uint8_t>(element);
}

void put_frame(std::vector<std::byte>& out, const MessageFrame& frame, const std::byte* payload) {
    const WireFrame wire{kFrameMagic, kind_on_wire(frame), frame.id, frame.turn, frame.tag, frame.bytes};
    const auto* header = reinterpret_cast<const std::byte*>(&wire);
    out.insert(out.end(), header, header + sizeof(wire));
    if (has_payload(frame.kind)) out.insert(out.end(), payload, payload + frame.bytes);
}

std::span<std::byte> MessageFrames::room() {
    if (bytes_.empty()) bytes_.resize(kTcpBuffer);
    std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    return std::span(bytes_).subspan(end_);
}

bool MessageFrames::next(MessageFrame& frame, const std::byte*& payload) {
    WireFrame wire;
    const std::size_t held = end_ - begin_;
    if (held < sizeof(wire)) return false;
    std::memcpy(&wire, bytes_.data() + begin_, sizeof(wire));
    frame = {FrameKind::none, wire.id, wire.turn, wire.tag, wire.bytes};
    read_kind(frame, wire.kind, peer_);
    const std::size_t behind = has_payload(frame.kind) ? frame.bytes : 0;
    if (wire.magic != kFrameMagic || frame.kind == FrameKind::none || behind > kTcpPiece)
        throw LinkLost{peer_, EBADMSG};
    if (held < sizeof(wire) + behind) return false;
    payload = bytes_.data() + begin_ + sizeof(wire);
    size_ = sizeof(wire) + behind;
    return true;
}

}  // namespace detail
}  // namespace ddprun
