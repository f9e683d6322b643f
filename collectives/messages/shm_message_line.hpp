// ShmMessageLine: frames between two ranks of one host, by the memory that they share for messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/messages/message_frames.hpp"
#include "collectives/messages/message_line.hpp"
#include "collectives/shm/message_memory.hpp"

namespace ddprun {
inline namespace detail {

// Wakes the rank of the bell, if it sleeps. Called after what it is to see has been written.
void ring_bell(MessageBell& bell);

class ShmMessageLine final : public MessageLine {
  public:
    // ShmMessageLine is between this rank and the one in place `peer`. The memory is borrowed.
    ShmMessageLine(const MessageMemory& memory, int peer);

    bool put(const MessageFrame& frame, const std::byte* payload) override;
    bool take(MessageFrame& frame, const std::byte*& payload) override;
    void release() override;
    bool is_ready() const noexcept override;
    bool is_exhausted() override { return !is_ready(); }
    std::size_t eager_limit() const noexcept override { return eager_limit_; }
    std::size_t piece_limit() const noexcept override { return memory_.layout().ring_size() / 4; }
    void set_handed_on(std::uint64_t amount) override {
        in_.handed_on.store(amount, std::memory_order_release);
    }
    std::uint64_t handed_on_by_peer() override { return out_.handed_on.load(std::memory_order_acquire); }

  private:
    std::uint64_t stamp_of(std::uint64_t number) const { return memory_.layout().lap_of(number) + 1; }
    // Returns where `bytes` that come after `position` bytes of the ring begin: not across its end.
    std::uint64_t place_of(std::uint64_t position, std::size_t bytes) const;

    const MessageMemory& memory_;
    int peer_;
    MessageCounters& out_;
    MessageCounters& in_;
    std::byte* out_ring_;
    const std::byte* in_ring_;
    std::size_t eager_limit_;
    std::uint64_t put_cells_ = 0;
    std::uint64_t put_bytes_ = 0;
    std::uint64_t free_cells_ = 0;  // what the peer is known to have released
    std::uint64_t free_bytes_ = 0;
    std::atomic<std::uint64_t> taken_cells_{0};
    std::uint64_t taken_bytes_ = 0;
    std::uint64_t taken_end_ = 0;  // of the payload that was taken last
};

}  // namespace detail
}  // namespace ddprun
