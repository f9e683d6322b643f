// encode_control() and decode_control() turn a ControlMessage into the bytes of a control connection and
// back. Pure.
//
// An agent first sends the four bytes of kControlMagic, by which the coordinator's port tells it from a store
// client. Then both sides send frames:
//
//     u32 length, little endian, 1..kMaxControlFrame | that many bytes: one JSON object
//
// The object's member "type" names the message (the struct's name in snake_case), the other members are the
// struct's. Unknown members are ignored; missing or mistyped ones, and texts over kMaxControlText, are
// refused.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/control/control_message.hpp"

namespace ddprun {
inline namespace job {

inline constexpr std::string_view kControlMagic = "DDPR";
inline constexpr std::size_t kMaxControlFrame = 1024 * 1024;
// kMaxFirstFrame: bytes of an agent's first frame, with its length. An agent that says more is not let in, so
// that a caller that is turned away costs no more than that.
inline constexpr std::size_t kMaxFirstFrame = 64 * 1024;
inline constexpr std::size_t kMaxControlText = 8 * 1024;  // six of them, every byte escaped, fit a frame

// Returns one whole frame. Texts are cut at kMaxControlText, so that the other side can read the frame.
std::string encode_control(const ControlMessage& message);

// SharedEnds and SharedFrames hold a message for several agents once: as messages, and as whole frames.
using SharedEnds = std::shared_ptr<const std::vector<RankEnds>>;
using SharedFrames = std::shared_ptr<const std::vector<std::string>>;
SharedFrames encode_ends(const std::vector<RankEnds>& messages);

// Returns the message of one frame's JSON; nothing if it is none. A Hello that another version of ddprun has
// said in its own way has version, run_id, host and pid only.
std::optional<ControlMessage> decode_control(std::string_view text);

// Returns whether the first frame is whole in `said`, what an agent has said behind the magic. Nothing: the
// frame will be too long, or is none.
std::optional<bool> has_first_message(std::string_view said);

// ControlFrames cuts a stream of bytes into frames. The owner reads the socket and feeds the bytes in;
// ControlFrames holds at most one frame and one read.
class ControlFrames {
  public:
    void append(std::string_view bytes) { buffer_.append(bytes); }

    // Returns the next whole message. Nothing: more bytes are needed, or the connection is useless
    // (is_broken()).
    std::optional<ControlMessage> next();
    bool is_broken() const { return is_broken_; }

  private:
    std::string buffer_;
    bool is_broken_ = false;
};

}  // namespace job
}  // namespace ddprun
