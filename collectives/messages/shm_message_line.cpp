#include "collectives/messages/shm_message_line.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "collectives/shm/message_layout.hpp"
#include "collectives/wire/tcp_link.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// In shared memory, two copies of more cost more than asking the receiver to fetch it.
constexpr std::size_t kLargestEager = std::size_t{8} << 10;

std::uint64_t line_of_bytes(std::uint64_t bytes) {
    return (bytes + kMessageLine - 1) / kMessageLine * kMessageLine;
}

}  // namespace

void ring_bell(MessageBell& bell) {
    // `sleepers` is read after a store, and counted up before a look, that are sequentially consistent
    // (stamp, cells, taken, news_): either the sleeper sees the store, or this rank the sleeper.
    if (bell.sleepers.load(std::memory_order_seq_cst) == 0) return;
    bell.count.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(bell.count);
}

ShmMessageLine::ShmMessageLine(const MessageMemory& memory, int peer)
    : memory_(memory),
      peer_(peer),
      out_(memory.counters(peer, memory.rank())),
      in_(memory.counters(memory.rank(), peer)),
      out_ring_(memory.ring(peer, memory.rank())),
      in_ring_(memory.ring(memory.rank(), peer)),
      eager_limit_(std::min(kLargestEager, memory.layout().ring_size() / 4)) {}

std::uint64_t ShmMessageLine::place_of(std::uint64_t position, std::size_t bytes) const {
    const std::size_t size = memory_.layout().ring_size();
    const std::uint64_t offset = position % size;
    return offset + bytes > size ? position - offset + size : position;
}

bool ShmMessageLine::put(const MessageFrame& frame, const std::byte* payload) {
    const std::size_t cells = memory_.layout().cells();
    if (put_cells_ - free_cells_ == cells) {
        free_cells_ = out_.cells.load(std::memory_order_seq_cst);
        if (put_cells_ - free_cells_ == cells) return false;
    }
    MessageCell& cell = memory_.cell(peer_, memory_.rank(), put_cells_);
    if (has_payload(frame.kind) && frame.bytes > kMessageInline) {
        const std::size_t size = memory_.layout().ring_size();
        const std::uint64_t begin = place_of(put_bytes_, frame.bytes);
        const std::uint64_t end = begin + line_of_bytes(frame.bytes);
        if (end - free_bytes_ > size) {
            // The count of cells is written after that of bytes, and a sleeper cannot miss it.
            free_cells_ = out_.cells.load(std::memory_order_seq_cst);
            free_bytes_ = out_.bytes.load(std::memory_order_acquire);
            if (end - free_bytes_ > size) return false;
        }
        std::memcpy(out_ring_ + begin % size, payload, frame.bytes);
        put_bytes_ = end;
    } else if (has_payload(frame.kind)) {
        if (frame.bytes > 0) std::memcpy(cell.payload.data(), payload, frame.bytes);
    } else {
        std::memcpy(cell.payload.data(), &frame.place, sizeof(frame.place));
    }
    cell.id = frame.id;
    cell.turn = frame.turn;
    cell.tag = frame.tag;
    cell.bytes = frame.bytes;
    cell.stamp.store(stamp_of(put_cells_) << 8 | kind_on_wire(frame), std::memory_order_seq_cst);
    ++put_cells_;
    ring_bell(memory_.bell(peer_));
    return true;
}

bool ShmMessageLine::is_ready() const noexcept {
    const std::uint64_t number = taken_cells_.load(std::memory_order_relaxed);
    const MessageCell& cell = memory_.cell(memory_.rank(), peer_, number);
    return cell.stamp.load(std::memory_order_seq_cst) >> 8 == stamp_of(number);
}

bool ShmMessageLine::take(MessageFrame& frame, const std::byte*& payload) {
    const std::uint64_t number = taken_cells_.load(std::memory_order_relaxed);
    const MessageCell& cell = memory_.cell(memory_.rank(), peer_, number);
    const std::uint64_t stamp = cell.stamp.load(std::memory_order_seq_cst);
    if (stamp >> 8 != stamp_of(number)) return false;
    frame = {FrameKind::none, cell.id, cell.turn, cell.tag, cell.bytes};
    read_kind(frame, stamp & 0xff, peer_);
    payload = cell.payload.data();
    taken_end_ = taken_bytes_;
    if (has_payload(frame.kind) && frame.bytes > kMessageInline) {
        const std::size_t size = memory_.layout().ring_size();
        // Written by another process of the same user: it is not to lead this one out of the ring.
        if (frame.bytes > size / 2) throw LinkLost{peer_, EBADMSG};
        const std::uint64_t begin = place_of(taken_bytes_, frame.bytes);
        payload = in_ring_ + begin % size;
        taken_end_ = begin + line_of_bytes(frame.bytes);
    } else if (!has_payload(frame.kind)) {
        std::memcpy(&frame.place, cell.payload.data(), sizeof(frame.place));
    }
    return true;
}

void ShmMessageLine::release() {
    const std::uint64_t number = taken_cells_.load(std::memory_order_relaxed) + 1;
    taken_cells_.store(number, std::memory_order_relaxed);
    if (taken_end_ != taken_bytes_) {
        taken_bytes_ = taken_end_;
        in_.bytes.store(taken_bytes_, std::memory_order_release);
    }
    in_.cells.store(number, std::memory_order_seq_cst);
    // It may wait for room.
    ring_bell(memory_.bell(peer_));
}

}  // namespace detail
}  // namespace ddprun
