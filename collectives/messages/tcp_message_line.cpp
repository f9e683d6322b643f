#include "collectives/messages/tcp_message_line.hpp"

#include <poll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <utility>

namespace ddprun {
inline namespace detail {
namespace {

// The peer is told of what has been handed on at the latest after so much.
constexpr std::uint64_t kCreditStep = std::uint64_t{64} << 10;

}  // namespace

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
