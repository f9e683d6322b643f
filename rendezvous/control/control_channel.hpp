// ControlChannel: one end of the conversation between an agent and the coordinator: a connection
// (ControlSession), or a queue inside the process that hosts both (make_local_channel).
//
// The owner shares it with the coroutine that still runs. Used on the thread of its executor only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/secure/sealed_records.hpp"

namespace ddprun {
inline namespace job {

class ControlChannel {
  public:
    ControlChannel() = default;
    ControlChannel(const ControlChannel&) = delete;
    ControlChannel& operator=(const ControlChannel&) = delete;
    virtual ~ControlChannel() = default;

    // Hands over each message until the conversation ends, whichever way. Returns true if the other end has
    // ended it, and did not break off in the middle of a message.
    virtual boost::asio::awaitable<bool> run(std::function<void(const ControlMessage&)> on_message) = 0;

    // Queues a message; with `close_after`, the conversation ends once the message is written.
    virtual void send(const ControlMessage& message, bool close_after) = 0;

    // Queues what many agents get (`ends` as messages, `frames` as bytes) behind all that was sent before.
    virtual void send_ends(const SharedEnds& ends, const SharedFrames& frames) = 0;

    // Returns whether the other machine has received everything that was sent.
    virtual bool all_arrived() = 0;

    // Passes over all messages that come from now on, but not the end. A channel inside the process needs no
    // such care.
    virtual void hear_no_more() = 0;

    // Ends the conversation when the other machine was not heard of for `timeout`.
    virtual void limit_silence(std::chrono::milliseconds timeout) = 0;

    virtual void close() = 0;
};

// Makes both ends of a conversation between an agent and a coordinator in its own process. No other caller
// can come before that agent or in its place, and the channel needs neither a descriptor nor a network. Each
// end is for the thread of its executor. While one end is in use, the other may be closed and forgotten, and
// its executor destroyed. An end must be closed before its executor goes.
std::pair<std::shared_ptr<ControlChannel>, std::shared_ptr<ControlChannel>> make_local_channel(
    const boost::asio::any_io_executor& one, const boost::asio::any_io_executor& other);

// ControlSession: one end of a connection between an agent and the coordinator.
//
// A reader coroutine (run), and a writer coroutine that sleeps on a timer while its queue is empty.
// CoordinatorService or CoordinatorClient creates and drives the session on its thread, and shares it with
// the coroutines that still run. Decides nothing.
class ControlSession final : public ControlChannel, public std::enable_shared_from_this<ControlSession> {
  public:
    // kStuckTimeout: a peer that takes nothing of shared frames for so long counts as stuck and is dropped.
    static constexpr std::chrono::seconds kStuckTimeout{10};

    // ControlSession also drops a peer for which more than `max_pending` bytes of its own wait to be written;
    // while half of that waits, an Answer goes without its text, and says so. `first_bytes` were read, and
    // unsealed, before. With `sealed` both sides send sealed records.
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

}  // namespace job
}  // namespace ddprun
