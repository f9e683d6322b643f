#include "rendezvous/door/door_frames.hpp"

#include <utility>

#include "rendezvous/base/check.hpp"
#include "rendezvous/store/wire.hpp"

namespace ddprun {
inline namespace job {
namespace {

constexpr std::size_t kDoorHeaderBytes = 9;

}  // namespace

void put_door_frame(std::string& out, DoorFrameKind kind, std::uint32_t channel, std::uint32_t count) {
    out += static_cast<char>(kind);
    put_u32(out, channel);
    put_u32(out, count);
}

void put_door_data(std::string& out, std::uint32_t channel, std::string_view data) {
    check(data.size() <= kMaxDoorData, "a frame of a door's client is too long");
    put_door_frame(out, DoorFrameKind::data, channel, static_cast<std::uint32_t>(data.size()));
    out += data;
}

bool DoorFrames::take(std::string_view bytes, const std::function<bool(const DoorFrame&)>& take_frame) {
    feed(bytes);
    for (DoorFrame frame;;) {
        const Status status = next(frame);
        if (status != Status::ready) return status == Status::incomplete;
        if (!take_frame(frame)) return false;
    }
}

void DoorFrames::feed(std::string_view bytes) {
    left_ = bytes;
    if (unfinished_.empty()) return;
    joined_ = std::exchange(unfinished_, {});
    joined_ += bytes;
    left_ = joined_;
}

DoorFrames::Status DoorFrames::next(DoorFrame& frame) {
    if (left_.size() < kDoorHeaderBytes) {
        unfinished_ = left_;
        return Status::incomplete;
    }
    const auto kind = static_cast<unsigned char>(left_[0]);
    if (kind > static_cast<unsigned char>(DoorFrameKind::close)) return Status::malformed;
    frame.kind = static_cast<DoorFrameKind>(kind);
    frame.channel = load_u32(left_.data() + 1);
    frame.count = load_u32(left_.data() + 5);
    const bool has_data = frame.kind == DoorFrameKind::data;
    const bool has_count = has_data || frame.kind == DoorFrameKind::credit;
    const std::size_t most = has_data ? kMaxDoorData : kDoorWindow;
    if (frame.channel == 0 || (frame.count > 0) != has_count || frame.count > most) return Status::malformed;
    const std::size_t data = has_data ? frame.count : 0;
    if (left_.size() - kDoorHeaderBytes < data) {
        unfinished_ = left_;
        return Status::incomplete;
    }
    frame.data = left_.substr(kDoorHeaderBytes, data);
    left_.remove_prefix(kDoorHeaderBytes + data);
    return Status::ready;
}

}  // namespace job
}  // namespace ddprun
