#include "collectives/wire/message.hpp"

#include <algorithm>

namespace ddprun::inline detail {

template <class Move>
std::size_t MessageState::move_parts(std::byte* payload, std::size_t size, Move move) {
    const std::size_t header_rest = kHeaderSize - header_done_;
    std::array<iovec, 2> parts{{{header_.data() + header_done_, header_rest}, {payload, size}}};
    const std::size_t count = header_rest + size == 0 ? 0 : move(parts);
    moved_ = count > 0;
    const std::size_t header_part = std::min(count, header_rest);
    header_done_ += header_part;
    return count - header_part;
}

std::size_t MessageWriter::write(const std::byte* payload, std::size_t size) {
    // iovec has no const; sendmsg only reads.
    return move_parts(const_cast<std::byte*>(payload), size,
                      [this](auto& parts) { return link_.write_some(parts); });
}

std::size_t MessageReader::read(std::byte* payload, std::size_t size) {
    return move_parts(payload, size, [this](auto& parts) { return link_.read_some(parts); });
}

}  // namespace ddprun::inline detail
