// TcpMessageLine: one connection for each direction, dialled by the rank that sends when it first does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/liveness/lifeline.hpp"
#include "collectives/messages/message_frames.hpp"
#include "collectives/messages/message_line.hpp"
#include "collectives/wire/membership.hpp"
#include "collectives/wire/redial.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun {
inline namespace detail {

class TcpMessageLine final : public MessageLine {
  public:
    TcpMessageLine(const Membership& membership, Lifeline& lifeline, int peer);

    bool put(const MessageFrame& frame, const std::byte* payload) override;
    bool take(MessageFrame& frame, const std::byte*& payload) override;
    void release() override { frames_.release(); }
    bool is_ready() const noexcept override { return true; }
    bool is_exhausted() override;
    std::size_t eager_limit() const noexcept override;
    std::size_t piece_limit() const noexcept override;
    void set_handed_on(std::uint64_t amount) override { handed_on_ = amount; }
    std::uint64_t handed_on_by_peer() override { return handed_on_by_peer_; }
    bool flush() override;
    void add_descriptors(std::vector<pollfd>& descriptors) override;

  private:
    // Goes on with dialling; true once connected, else called again later.
    bool dial();
    bool read_more();

    const Membership& membership_;
    Lifeline& lifeline_;
    int peer_;
    Dial dial_;
    ProcessDescriptor timer_;  // for what dial_ waits until
    Deadline timed_ = Deadline::max();
    std::optional<TcpLink> in_;
    bool in_over_ = false;
    std::vector<std::byte> write_;
    std::size_t write_begin_ = 0;
    MessageFrames frames_;
    std::uint64_t handed_on_ = 0;
    std::uint64_t told_ = 0;
    std::uint64_t handed_on_by_peer_ = 0;
};

}  // namespace detail
}  // namespace ddprun
