// What an agent's door and node 0 say to each other: many clients of the store share one sealed connection. Pure.
//
//   frame  = u8 kind | u32 channel | u32 count, little endian [| that many bytes: of a `data`]
//
//   open     a client has come; from the door only, the numbers of channels rise by one from 1 on
//   data     bytes of the client, or for it
//   credit   so many bytes more may be sent on the channel; each side begins with kDoorWindow
//   close    the client is gone, or the store has ended the conversation; the last frame of the channel from there
//
// Each side takes all that the other one had credit for, so neither ever leaves the connection unread, and a client that
// takes nothing holds up nobody else. A frame of a channel that has been closed here is passed over: the other side did
// not know that yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::inline job {

enum class DoorFrameKind : std::uint8_t { open = 0, data = 1, credit = 2, close = 3 };

// Bytes that one side may send on a channel before the other one has said that they were taken.
inline constexpr std::size_t kDoorWindow = std::size_t{256} << 10;
// They are given back when there are so many.
inline constexpr std::size_t kDoorCreditStep = kDoorWindow / 2;
// Of one `data`; more is cut into several, so that others' bytes come in between.
inline constexpr std::size_t kMaxDoorData = std::size_t{64} << 10;

struct DoorFrame {
    DoorFrameKind kind = DoorFrameKind::open;
    std::uint32_t channel = 0;
    std::uint32_t count = 0;  // of bytes; 0 for open and close
    std::string_view data;    // of a `data`
};

// Appends the frame. put_door_data() wants at most kMaxDoorData bytes.
void put_door_frame(std::string& out, DoorFrameKind kind, std::uint32_t channel, std::uint32_t count = 0);
void put_door_data(std::string& out, std::uint32_t channel, std::string_view data);

// The frames in what has been unsealed, however it was cut.
class DoorFrames {
  public:
    enum class Status { ready, incomplete, malformed };

    // Bytes that come behind those before. Valid until the next call: they are looked at where they are.
    void feed(std::string_view bytes);
    // Its data is valid until the next call of feed(). After `incomplete` feed() must follow; `malformed` stays.
    Status next(DoorFrame& frame);

  private:
    std::string unfinished_;  // of the frame that feed() has begun
    std::string joined_;
    std::string_view left_;
};

}  // namespace ddprun::inline job
