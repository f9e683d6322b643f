#include "collectives/wire/message.hpp"

#include <algorithm>

namespace ddprun {
namespace {

// What remains of the header goes in front, so that a small message is one system call. Returns the bytes of
// payload.
template <class Move>
std::size_t move_message(std::array<std::byte, kHeaderSize>& header, std::size_t& header_done,
                         std::byte* payload, std::size_t size, bool& moved, Move move) {
    const std::size_t header_rest = kHeaderSize - header_done;
    std::array<iovec, 2> parts{{{header.data() + header_done, header_rest}, {payload, size}}};
    const std::size_t count = header_rest + size == 0 ? 0 : move(parts);
    moved = count > 0;
    const std::size_t header_part = std::min(count, header_rest);
    header_done += header_part;
    return count - header_part;
}

}  // namespace

std::size_t MessageWriter::write(const std::byte* payload, std::size_t size) {
    // iovec has no const; sendmsg only reads.
    return move_message(header_, header_done_, const_cast<std::byte*>(payload), size, moved_,
                        [this](auto& parts) { return link_.write_some(parts); });
}

std::size_t MessageReader::read(std::byte* payload, std::size_t size) {
    return move_message(header_, header_done_, payload, size, moved_,
                        [this](auto& parts) { return link_.read_some(parts); });
}

}  // namespace ddprun
