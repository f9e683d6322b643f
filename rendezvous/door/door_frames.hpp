// DoorFrame: what an agent's door and node 0 say, on their one connection (sealed_link.hpp), of what many
// clients of the store say and hear. Pure.
//
//   frame  = u8 kind | u32 channel | u32 count, little endian [| that many bytes: of a `data`]
//
//   open     a client has come; from the door only, the numbers of channels rise by one from 1 on
//   data     bytes of the client, or for it
//   credit   count bytes more may be sent on the channel; each side begins with kDoorWindow
//   close    the client is gone, or the store has ended the conversation; the sender's last of the channel
//
// Each side takes all that the other one had credit for, so neither ever leaves the connection unread, and a
// client that takes nothing holds up no other. A frame of a channel that has been closed here is ignored: the
// other side did not know that yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun {
inline namespace job {

enum class DoorFrameKind : std::uint8_t { open = 0, data = 1, credit = 2, close = 3 };

// kDoorWindow: bytes that one side may send on a channel before the other side has acknowledged them.
inline constexpr std::size_t kDoorWindow = std::size_t{256} << 10;
// kDoorCreditStep: the taken bytes from which credit for them is given back.
inline constexpr std::size_t kDoorCreditStep = kDoorWindow / 2;
// kMaxDoorData: bytes of one `data` at most; longer ones are cut, so that other channels' bytes come in
// between.
inline constexpr std::size_t kMaxDoorData = std::size_t{64} << 10;

struct DoorFrame {
    DoorFrameKind kind = DoorFrameKind::open;
    std::uint32_t channel = 0;
    std::uint32_t count = 0;  // of bytes; 0 for open and close
    std::string_view data;    // of a `data`
};

// Appends the frame. put_door_data() accepts at most kMaxDoorData bytes.
void put_door_frame(std::string& out, DoorFrameKind kind, std::uint32_t channel, std::uint32_t count = 0);
void put_door_data(std::string& out, std::uint32_t channel, std::string_view data);

// DoorFrames splits unsealed bytes into frames, however they were cut.
class DoorFrames {
  public:
    enum class Status { ready, incomplete, malformed };

    // Calls `take_frame` for each whole frame in these bytes, behind those before. Returns false if
    // `take_frame` did, or if a frame is malformed.
    bool take(std::string_view bytes, const std::function<bool(const DoorFrame&)>& take_frame);
    // Takes bytes that come behind those before. next() reads them in place: they are valid until the next
    // call of feed().
    void feed(std::string_view bytes);
    // Reads a frame; its data is valid until the next call of feed(). After `incomplete` feed() must follow;
    // `malformed` stays.
    Status next(DoorFrame& frame);

  private:
    std::string unfinished_;  // of the frame that feed() has begun
    std::string joined_;
    std::string_view left_;
};

}  // namespace job
}  // namespace ddprun
