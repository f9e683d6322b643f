#include "rendezvous/door/door_frames.hpp"

#include <random>
#include <vector>

#include "rendezvous/store/wire.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

struct KeptFrame {
    DoorFrameKind kind = DoorFrameKind::open;
    std::uint32_t channel = 0;
    std::uint32_t count = 0;
    std::string data;

    bool operator==(const KeptFrame&) const = default;
};

// Nothing: the bytes were malformed.
std::optional<std::vector<KeptFrame>> frames_of(const std::vector<std::string>& pieces) {
    DoorFrames frames;
    std::vector<KeptFrame> kept;
    for (const std::string& piece : pieces) {
        frames.feed(piece);
        for (DoorFrame frame;;) {
            const auto status = frames.next(frame);
            if (status == DoorFrames::Status::malformed) return std::nullopt;
            if (status == DoorFrames::Status::incomplete) break;
            kept.push_back({frame.kind, frame.channel, frame.count, std::string(frame.data)});
        }
    }
    return kept;
}

std::string raw_frame(int kind, std::uint32_t channel, std::uint32_t count, std::size_t data = 0) {
    std::string bytes(1, static_cast<char>(kind));
    put_u32(bytes, channel);
    put_u32(bytes, count);
    return bytes + std::string(data, 'x');
}

}  // namespace

TEST_CASE("frames of a door are the same however they are cut", "[door_wire]") {
    std::string bytes;
    put_door_frame(bytes, DoorFrameKind::open, 1);
    put_door_data(bytes, 1, "hello");
    put_door_data(bytes, 1, std::string(kMaxDoorData, 'v'));
    put_door_frame(bytes, DoorFrameKind::credit, 1, kDoorWindow);
    put_door_frame(bytes, DoorFrameKind::close, 1);
    const std::vector<KeptFrame> expected = {
        {DoorFrameKind::open, 1, 0, ""},
        {DoorFrameKind::data, 1, 5, "hello"},
        {DoorFrameKind::data, 1, kMaxDoorData, std::string(kMaxDoorData, 'v')},
        {DoorFrameKind::credit, 1, kDoorWindow, ""},
        {DoorFrameKind::close, 1, 0, ""}};
    CHECK(frames_of({bytes}) == expected);
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 200; ++round) {
        std::vector<std::string> pieces;
        for (std::size_t at = 0; at < bytes.size();) {
            const std::size_t most = round % 2 == 0 ? 20 : 40'000;
            const std::size_t size = 1 + random() % most;
            pieces.push_back(bytes.substr(at, size));
            at += size;
            // The long frame a byte at a time would take all day.
            if (round % 2 == 0 && at > 100 && at < kMaxDoorData) {
                pieces.push_back(bytes.substr(at, kMaxDoorData - at));
                at = kMaxDoorData;
            }
        }
        REQUIRE(frames_of(pieces) == expected);
    }
}

TEST_CASE("a frame that no door sends is refused as soon as its head has come", "[door_wire]") {
    const std::vector<std::string> malformed = {
        raw_frame(4, 1, 0),                 // no such kind
        raw_frame(255, 1, 0),               //
        raw_frame(0, 0, 0),                 // no such channel
        raw_frame(1, 0, 1),                 //
        raw_frame(0, 1, 1),                 // bytes that are none
        raw_frame(3, 1, 1),                 //
        raw_frame(1, 1, 0),                 // nothing
        raw_frame(2, 1, 0),                 //
        raw_frame(1, 1, kMaxDoorData + 1),  // too long
        raw_frame(1, 1, 0xffffffff),        //
        raw_frame(2, 1, kDoorWindow + 1),   // more than can have been taken
        raw_frame(2, 1, 0xffffffff),        //
    };
    for (const std::string& bytes : malformed) {
        INFO(bytes.size() << " bytes, kind " << static_cast<int>(bytes[0]));
        CHECK_FALSE(frames_of({bytes}));
        CHECK(frames_of({bytes.substr(0, bytes.size() - 1)}));
    }
    CHECK(frames_of({raw_frame(1, 7, 3, 3)}));
    CHECK(frames_of({raw_frame(1, 7, 3, 2)})->empty());
}

}  // namespace ddprun
