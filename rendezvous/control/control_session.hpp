// ControlSession: one end of a connection between an agent and the coordinator.
//
// One reader coroutine (run) and one writer coroutine that sleeps on a timer while its queue is empty.
// Created and driven by CoordinatorService or CoordinatorClient on their thread; shared with the coroutines
// that still run. Decides nothing.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/control/control_channel.hpp"
#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/secure/sealed_connection.hpp"

namespace ddprun::inline job {

class ControlSession final : public ControlChannel, public std::enable_shared_from_this<ControlSession> {
  public:
    // A peer that takes nothing of shared frames for so long counts as stuck and is dropped, …
    static constexpr std::chrono::seconds kStuckTimeout{10};

    // … and so is one for which more than `max_pending` bytes of its own wait to be written. `first_bytes` were read,
    // and unsealed, before. With `sealed` both sides send sealed records.
    ControlSession(boost::asio::ip::tcp::socket socket, std::size_t max_pending, std::string first_bytes = {},
                   std::optional<SealedRecords> sealed = std::nullopt);

    boost::asio::awaitable<bool> run(std::function<void(const ControlMessage&)> on_message) override;
    void send(const ControlMessage& message, bool close_after) override;
    void send_ends(const SharedEnds& ends, const SharedFrames& frames) override;
    bool all_arrived() override;
    void hear_no_more() override { hears_no_more_ = true; }
    void limit_silence(std::chrono::milliseconds timeout) override {
        ddprun::limit_silence(socket_, timeout);
    }
    void close() override;

  private:
    bool read_into(ControlFrames& frames);
    bool take(std::string_view bytes, ControlFrames& frames);
    boost::asio::awaitable<void> write_queue();
    std::string as_sent(std::string bytes);
    boost::asio::awaitable<bool> write_frames(SharedFrames frames);

    boost::asio::ip::tcp::socket socket_;
    boost::asio::steady_timer queue_event_;
    boost::asio::steady_timer stuck_;
    std::size_t max_pending_;
    std::string first_bytes_;
    std::vector<SharedFrames> frames_;  // go before `pending_`
    std::string pending_;
    std::optional<SealedRecords> sealed_;
    bool close_after_pending_ = false;
    bool hears_no_more_ = false;
    bool closed_there_ = false;
};

}  // namespace ddprun::inline job
