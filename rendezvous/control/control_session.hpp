// ControlSession: one end of the connection between an agent and the coordinator.
//
// One reader coroutine (run) and one writer coroutine that sleeps on a timer while its queue is empty.
// Created and driven by RendezvousServer or CoordinatorClient on their thread; shared with the coroutines
// that still run. Decides nothing.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/net/socket.hpp"

namespace ddprun {

class ControlSession : public std::enable_shared_from_this<ControlSession> {
  public:
    // A peer that takes nothing of shared frames for so long counts as stuck and is dropped, …
    static constexpr std::chrono::seconds kStuckTimeout{10};

    // … and so is one for which more than `max_pending` bytes of its own wait to be written.
    ControlSession(boost::asio::ip::tcp::socket socket, std::size_t max_pending);

    // Reads until the connection ends, whichever way; hands over each message. `first_bytes` were read
    // before. True if the other end has closed it, and did not break off in the middle of a message.
    boost::asio::awaitable<bool> run(std::string first_bytes,
                                     std::function<void(const ControlMessage&)> on_message);

    // Queues a message; with `close_after`, the connection ends once it is written.
    void send(const ControlMessage& message, bool close_after);

    // Queues them behind all that was sent before.
    void send_frames(SharedFrames frames);

    // Whether the other machine has received everything that was sent.
    bool all_arrived();

    // As the function of that name does.
    void limit_silence(std::chrono::milliseconds timeout) { ddprun::limit_silence(socket_, timeout); }

    void close();

  private:
    bool read_into(ControlFrames& frames);
    boost::asio::awaitable<void> write_queue();
    boost::asio::awaitable<bool> write_frames(SharedFrames frames);

    boost::asio::ip::tcp::socket socket_;
    boost::asio::steady_timer queue_event_;
    boost::asio::steady_timer stuck_;
    std::size_t max_pending_;
    std::vector<SharedFrames> frames_;  // go before `pending_`
    std::string pending_;
    bool close_after_pending_ = false;
    bool closed_there_ = false;
};

}  // namespace ddprun
