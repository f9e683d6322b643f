#include "collectives/messages/message_line.hpp"

#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "rendezvous/base/error.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// In shared memory, two copies of more cost more than asking the receiver to fetch it.
constexpr std::size_t kLargestEager = std::size_t{8} << 10;
// What a rank holds of frames to or from one peer over TCP.
constexpr std::size_t kTcpBuffer = std::size_t{512} << 10;
constexpr std::size_t kTcpPiece = std::size_t{128} << 10;
// The peer is told of what has been handed on at the latest after so much.
constexpr std::uint64_t kCreditStep = std::uint64_t{64} << 10;

constexpr std::uint32_t kFrameMagic = 0x314d'5444;  // "DTM1"

struct WireFrame {
    std::uint32_t magic = kFrameMagic;
    std::uint32_t kind = 0;
    std::uint32_t id = 0;
    std::uint32_t turn = 0;
    std::uint64_t tag = 0;
    std::uint64_t bytes = 0;
};

// The kind as it travels, which says what the message is of.
constexpr std::uint32_t kKinds = 8;
std::uint32_t kind_on_wire(const MessageFrame& frame) {
    return frame.element * kKinds + static_cast<std::uint32_t>(frame.kind);
}
void read_kind(MessageFrame& frame, std::uint64_t kind, int peer) {
    const std::uint64_t element = kind / kKinds;
    const bool fits = element <= std::numeric_limits<std::uint8_t>::max();
    if (!fits || (element > 0 && !is_known(static_cast<DataType>(element - 1))))
        throw LinkLost{peer, EBADMSG};
    frame.kind = static_cast<FrameKind>(kind % kKinds);
    frame.element = static_cast<std::uint8_t>(element);
}

bool has_payload(FrameKind kind) { return kind == FrameKind::eager || kind == FrameKind::piece; }

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

void put_frame(std::vector<std::byte>& out, const MessageFrame& frame, const std::byte* payload) {
    const WireFrame wire{kFrameMagic, kind_on_wire(frame), frame.id, frame.turn, frame.tag, frame.bytes};
    const auto* header = reinterpret_cast<const std::byte*>(&wire);
    out.insert(out.end(), header, header + sizeof(wire));
    if (has_payload(frame.kind)) out.insert(out.end(), payload, payload + frame.bytes);
}

std::span<std::byte> MessageFrames::room() {
    if (bytes_.empty()) bytes_.resize(kTcpBuffer);
    std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    return std::span(bytes_).subspan(end_);
}

bool MessageFrames::next(MessageFrame& frame, const std::byte*& payload) {
    WireFrame wire;
    const std::size_t held = end_ - begin_;
    if (held < sizeof(wire)) return false;
    std::memcpy(&wire, bytes_.data() + begin_, sizeof(wire));
    frame = {FrameKind::none, wire.id, wire.turn, wire.tag, wire.bytes};
    read_kind(frame, wire.kind, peer_);
    const std::size_t behind = has_payload(frame.kind) ? frame.bytes : 0;
    if (wire.magic != kFrameMagic || frame.kind == FrameKind::none || behind > kTcpPiece)
        throw LinkLost{peer_, EBADMSG};
    if (held < sizeof(wire) + behind) return false;
    payload = bytes_.data() + begin_ + sizeof(wire);
    size_ = sizeof(wire) + behind;
    return true;
}

TcpMessageLine::TcpMessageLine(const Membership& membership, Lifeline& lifeline, int peer)
    : membership_(membership),
      lifeline_(lifeline),
      peer_(peer),
      dial_(membership, peer, Channel::messages),
      frames_(peer) {}

std::size_t TcpMessageLine::eager_limit() const noexcept { return kTcpPiece; }
std::size_t TcpMessageLine::piece_limit() const noexcept { return kTcpPiece; }

bool TcpMessageLine::dial() {
    try {
        if (dial_.go_on()) {
            timer_ = ProcessDescriptor();
            return true;
        }
    } catch (const DialRefused&) {
        throw LinkLost{peer_, ECONNREFUSED};
    }
    if (std::exchange(timed_, dial_.until()) == dial_.until()) return false;
    timer_ = ProcessDescriptor();
    if (timed_ == Deadline::max()) return false;
    timer_ = ProcessDescriptor([] { return ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC); });
    const auto rest = std::max(timed_ - Deadline::clock::now(), Deadline::duration(1));
    const auto seconds = std::chrono::floor<std::chrono::seconds>(rest);
    itimerspec after{};
    after.it_value = {seconds.count(), std::chrono::nanoseconds(rest - seconds).count()};
    if (timer_) ::timerfd_settime(timer_.get(), 0, &after, nullptr);
    return false;
}

bool TcpMessageLine::put(const MessageFrame& frame, const std::byte* payload) {
    if (write_.size() - write_begin_ > kTcpBuffer - kTcpPiece) {
        flush();
        if (write_.size() - write_begin_ > kTcpBuffer - kTcpPiece) return false;
    }
    put_frame(write_, frame, payload);
    flush();
    return true;
}

bool TcpMessageLine::flush() {
    if (handed_on_ - told_ >= kCreditStep && write_.size() - write_begin_ < kTcpBuffer) {
        told_ = handed_on_;
        put_frame(write_, {FrameKind::credit, 0, 0, told_, 0, 0}, nullptr);
    }
    if (write_.empty()) return true;
    if (!dial()) return false;
    while (write_begin_ < write_.size()) {
        iovec part{write_.data() + write_begin_, write_.size() - write_begin_};
        const std::size_t count = dial_.link().write_some({&part, 1});
        if (count == 0) break;
        write_begin_ += count;
    }
    if (write_begin_ == write_.size() || write_begin_ >= kTcpBuffer / 2) {
        write_.erase(write_.begin(), write_.begin() + static_cast<std::ptrdiff_t>(write_begin_));
        write_begin_ = 0;
    }
    return write_.empty();
}

bool TcpMessageLine::read_more() {
    if (in_over_) return false;
    if (!in_) in_ = lifeline_.take_data(peer_, membership_.lanes());
    if (!in_) return false;
    try {
        const std::span<std::byte> room = frames_.room();
        iovec part{room.data(), room.size()};
        const std::size_t count = in_->read_some({&part, 1});
        frames_.add(count);
        return count > 0;
    } catch (const LinkLost&) {
        in_over_ = true;
        throw;
    }
}

bool TcpMessageLine::take(MessageFrame& frame, const std::byte*& payload) {
    while (true) {
        if (!frames_.next(frame, payload)) {
            if (!read_more()) return false;
            continue;
        }
        if (frame.kind != FrameKind::credit) return true;
        handed_on_by_peer_ = frame.tag;
        release();
    }
}

bool TcpMessageLine::is_exhausted() {
    if (in_over_) return true;
    if (in_) return false;
    // Asked in this order: it may be proving meanwhile who it is.
    if (lifeline_.may_bring_data(peer_, membership_.lanes())) return false;
    in_ = lifeline_.take_data(peer_, membership_.lanes());
    return !in_;
}

void TcpMessageLine::add_descriptors(std::vector<pollfd>& descriptors) {
    if (in_ && !in_over_) descriptors.push_back({in_->descriptor(), POLLIN, 0});
    if (write_.empty()) return;
    if (timer_) descriptors.push_back({timer_.get(), POLLIN, 0});
    if (dial_.awaits() != 0) descriptors.push_back({dial_.link().descriptor(), dial_.awaits(), 0});
}

}  // namespace detail
}  // namespace ddprun
