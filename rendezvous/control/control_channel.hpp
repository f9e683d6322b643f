// ControlChannel: one end of the conversation between an agent and the coordinator: a connection (ControlSession), or a
// queue inside the process that hosts both (make_local_channel).
//
// Shared by its owner and by the coroutine that still runs; used on the thread of its executor only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/control_wire.hpp"

namespace ddprun::inline job {

class ControlChannel {
  public:
    ControlChannel() = default;
    ControlChannel(const ControlChannel&) = delete;
    ControlChannel& operator=(const ControlChannel&) = delete;
    virtual ~ControlChannel() = default;

    // Hands over each message until the conversation ends, whichever way. True if the other end has ended it, and did
    // not break off in the middle of a message.
    virtual boost::asio::awaitable<bool> run(std::function<void(const ControlMessage&)> on_message) = 0;

    // Queues a message; with `close_after`, the conversation ends once it is written.
    virtual void send(const ControlMessage& message, bool close_after) = 0;

    // Queues them behind all that was sent before; they are what many agents get: as messages, and as bytes.
    virtual void send_ends(const SharedEnds& ends, const SharedFrames& frames) = 0;

    // Whether the other machine has received everything that was sent.
    virtual bool all_arrived() = 0;

    // What comes from there from now on is passed over, but for its end. The own process's needs no such care.
    virtual void hear_no_more() = 0;

    // Ends it when the other machine was not heard of for so long.
    virtual void limit_silence(std::chrono::milliseconds timeout) = 0;

    virtual void close() = 0;
};

// The conversation of an agent with a coordinator in its own process: nobody can come before it or in its place, and it
// needs neither a descriptor nor a network.

// Both ends, each for the thread of its executor. One end may be closed and forgotten, and then its executor be
// destroyed, while the other is in use; an end must be closed before its executor goes.
std::pair<std::shared_ptr<ControlChannel>, std::shared_ptr<ControlChannel>> make_local_channel(
    const boost::asio::any_io_executor& one, const boost::asio::any_io_executor& other);

}  // namespace ddprun::inline job
