#include "launcher/start/start_message.hpp"

#include "rendezvous/codec/binary_codec.hpp"
#include "rendezvous/system/check.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::size_t kFrameHeadBytes = 4;
constexpr std::string_view kFrameEnd = "\n";
constexpr unsigned kByteBits = 8;

template <class Message>
std::string framed(const Message& message) {
    const std::string body = to_bytes<PlainNumbers>(message);
    check(body.size() <= kMaxFrameDown, "a frame as long as that is not sent");
    std::string frame;
    frame.reserve(kFrameHeadBytes + body.size() + kFrameEnd.size());
    for (std::size_t i = 0; i < kFrameHeadBytes; ++i)
        frame.push_back(static_cast<char>(body.size() >> (i * kByteBits) & 0xff));
    return frame.append(body).append(kFrameEnd);
}

template <class Message>
std::optional<Message> parsed_frame(std::string_view body) {
    Message message;
    if (!from_bytes<PlainNumbers>(body, message)) return std::nullopt;
    return message;
}

}  // namespace

std::string frame_of(const DownMessage& message) { return framed(message); }
std::string frame_of(const UpMessage& message) { return framed(message); }
std::optional<DownMessage> parse_down(std::string_view body) { return parsed_frame<DownMessage>(body); }
std::optional<UpMessage> parse_up(std::string_view body) { return parsed_frame<UpMessage>(body); }

std::optional<std::string_view> FrameReader::next() {
    const std::string_view rest = std::string_view(held_).substr(taken_);
    if (broken_ || rest.size() < kFrameHeadBytes) {
        held_.erase(0, taken_);
        taken_ = 0;
        return std::nullopt;
    }
    std::size_t length = 0;
    for (std::size_t i = 0; i < kFrameHeadBytes; ++i)
        length |= std::size_t{static_cast<unsigned char>(rest[i])} << (i * kByteBits);
    const std::size_t whole = kFrameHeadBytes + length + kFrameEnd.size();
    broken_ = length > limit_ || (rest.size() >= whole && !rest.substr(0, whole).ends_with(kFrameEnd));
    if (broken_ || rest.size() < whole) {
        held_.erase(0, taken_);
        taken_ = 0;
        return std::nullopt;
    }
    taken_ += whole;
    return rest.substr(kFrameHeadBytes, length);
}

}  // namespace ddprun::inline launch
