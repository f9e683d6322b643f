// libFuzzer's target for what an agent's door and node 0 say to each other: any bytes as frames. However they
// are cut they say the same, no frame has more than is allowed, and those that were taken are the same after
// their own bytes.
//
// An input is a byte that says how the rest is cut, and then the stream. Half of the changes put a whole
// frame in.
//
// Built with clang and -DDDPRUN_FUZZ=ON; run as: door_fuzz -max_total_time=60
#include <algorithm>
#include <cstdint>
#include <random>

#include "rendezvous/base/check.hpp"
#include "rendezvous/door/door_frames.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace ddprun {
namespace {

struct Heard {
    std::string again;  // the frames, written anew
    bool is_broken = false;

    bool operator==(const Heard&) const = default;
};

Heard heard_in(std::string_view stream, std::size_t piece) {
    DoorFrames frames;
    Heard heard;
    while (!stream.empty() && !heard.is_broken) {
        const std::string_view next = stream.substr(0, piece);
        frames.feed(next);
        stream.remove_prefix(next.size());
        for (DoorFrame frame;;) {
            const auto status = frames.next(frame);
            heard.is_broken = status == DoorFrames::Status::malformed;
            if (status != DoorFrames::Status::ready) break;
            check(frame.channel > 0, "a frame is of no channel");
            check(frame.count <= (frame.kind == DoorFrameKind::data ? kMaxDoorData : kDoorWindow),
                  "a frame has more than is allowed");
            if (frame.kind == DoorFrameKind::data) {
                check(frame.data.size() == frame.count, "a frame's data is not all of it");
                put_door_data(heard.again, frame.channel, frame.data);
            } else {
                put_door_frame(heard.again, frame.kind, frame.channel, frame.count);
            }
        }
    }
    return heard;
}

}  // namespace
}  // namespace ddprun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
    const ddprun::Heard whole = ddprun::heard_in(stream, size);
    ddprun::check(ddprun::heard_in(stream, std::size_t{data[0]} + 1) == whole,
                  "what frames say depends on how they were cut");
    ddprun::check(stream.starts_with(whole.again), "a frame is another one after its own bytes");
    return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
    std::minstd_rand random(seed);
    if (size == 0 || random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
    std::string frame;
    const auto channel = static_cast<std::uint32_t>(1 + random() % 3);
    const auto count = static_cast<std::uint32_t>(1 + random() % 300);
    switch (random() % 4) {
        case 0: ddprun::put_door_data(frame, channel, std::string(count, 'x')); break;
        case 1: ddprun::put_door_frame(frame, ddprun::DoorFrameKind::credit, channel, count); break;
        case 2: ddprun::put_door_frame(frame, ddprun::DoorFrameKind::open, channel); break;
        default: ddprun::put_door_frame(frame, ddprun::DoorFrameKind::close, channel);
    }
    if (size + frame.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
    std::copy(frame.begin(), frame.end(), data + size);
    return size + frame.size();
}
