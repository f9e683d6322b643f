// Frames of messages as they come over a connection.
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "collectives/messages/message_frames.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

void feed(MessageFrames& frames, std::span<const std::byte> bytes) {
    std::memcpy(frames.room().data(), bytes.data(), bytes.size());
    frames.add(bytes.size());
}

std::vector<std::byte> eager_of(std::span<const std::byte> payload) {
    std::vector<std::byte> bytes;
    put_frame(bytes, {.kind = FrameKind::eager, .tag = 7, .bytes = payload.size(), .element = 1},
              payload.data());
    return bytes;
}

}  // namespace

TEST_CASE("a frame is taken once it is whole, however it was cut", "[frames]") {
    const std::array<std::byte, 5> payload{std::byte{1}, std::byte{2}};
    const auto bytes = eager_of(payload);
    MessageFrames frames(1);
    MessageFrame frame;
    const std::byte* data = nullptr;
    for (const std::byte& one : bytes) {
        REQUIRE_FALSE(frames.next(frame, data));
        feed(frames, {&one, 1});
    }
    REQUIRE(frames.next(frame, data));
    CHECK((frame.tag == 7 && frame.bytes == payload.size() && frame.element == 1));
    CHECK(std::memcmp(data, payload.data(), payload.size()) == 0);
    frames.release();
    CHECK_FALSE(frames.next(frame, data));
}

TEST_CASE("what is no frame names its sender", "[frames]") {
    // Of another mark, of no kind, of a type that is none, of one that would be cut to a known one, and of
    // too many bytes.
    const std::vector<std::pair<std::size_t, std::uint64_t>> wrong = {
        {0, 0x314d'5445}, {4, 0}, {4, 1 + 8 * 200}, {4, 1 + 8 * 0x101}, {24, (std::uint64_t{128} << 10) + 1}};
    for (const auto& [place, number] : wrong) {
        auto bytes = eager_of({});
        std::memcpy(bytes.data() + place, &number, place == 24 ? 8 : 4);
        MessageFrames frames(1);
        feed(frames, bytes);
        MessageFrame frame;
        const std::byte* data = nullptr;
        try {
            frames.next(frame, data);
            FAIL("number " << number << " at " << place);
        } catch (const LinkLost& lost) {
            CHECK((lost.peer == 1 && lost.error_number == EBADMSG));
        }
    }
}
