// StoreConnection: one client of a StoreService, by a socket or by a StorePipe.
#pragma once

#include <sys/epoll.h>
#include <sys/uio.h>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "rendezvous/store/store_state.hpp"
#include "rendezvous/store/wire.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace base {

// StorePipe is a client of the store whose bytes come and go by something else than a socket of its own: one
// of many that share an agent's connection (see door/door_link.hpp).
//
// The owner of that connection implements it; StoreService calls it on its thread, often in the middle of
// serving many clients: so it only notes what it is told, and calls nothing of StoreService's in return.
class StorePipe {
  public:
    StorePipe() = default;
    StorePipe(const StorePipe&) = delete;
    StorePipe& operator=(const StorePipe&) = delete;
    virtual ~StorePipe() = default;

    // Takes as many of these bytes as there is room for, and says how many. If these are not all, its owner
    // calls StoreService::resume() when there is room again.
    virtual std::size_t take(std::span<const iovec> pieces) = 0;
    // Tells that so many bytes that were fed are served: as many may be fed again.
    virtual void served(std::size_t bytes) = 0;
    // Tells that the store has ended the conversation, behind what it had taken. This is the last call.
    virtual void ended() = 0;
};

// StoreConnection is what StoreService keeps of one client. The coroutine that serves it owns it, on the
// store's thread.
struct StoreConnection : std::enable_shared_from_this<StoreConnection> {
    StoreConnection(ConnectionId number, int descriptor, const boost::asio::any_io_executor& executor)
        : StoreConnection(number, executor) {
        fd = OwnedDescriptor(descriptor);
    }
    StoreConnection(ConnectionId number, std::shared_ptr<StorePipe> client,
                    const boost::asio::any_io_executor& executor)
        : StoreConnection(number, executor) {
        pipe = std::move(client);
    }

    bool is_open() const { return fd || pipe; }
    // Counts the memory that only this connection's buffers take.
    std::size_t buffered() const { return is_open() ? outbox.capacity() + decoder.capacity() : 0; }
    // Counts what it makes the store hold: that, and the values that it has still to take.
    std::size_t holds() const { return buffered() + outbox.pending(); }

    enum class Sent { all, rest_later, broken };
    // Sends what the socket takes, until the others should have their turn.
    Sent send_turn();
    // Waits no longer for its progress, nor for its socket to take more.
    void cancel_deadlines();

    ConnectionId id;
    OwnedDescriptor fd;               // its socket …
    std::shared_ptr<StorePipe> pipe;  // … or what it has instead
    std::size_t fed = 0;              // from there, of which it does not know yet that it was served
    RequestDecoder decoder;
    Outbox outbox;
    bool has_finished = false;       // and nothing more comes from there
    std::size_t accounted = 0;       // of buffered(), in the sum of all
    std::uint32_t events = EPOLLIN;  // what the ready set is asked for
    std::uint64_t received = 0;      // bytes
    std::uint64_t requests = 0;      // complete ones
    bool dirty = false;              // something was put into the outbox in this batch
    bool overflown = false;          // it watches more than it takes
    bool unfinished = false;         // complete requests are waiting in the decoder
    bool draining = false;           // the socket is full; waiting until it takes more
    bool progressing = false;        // progress_deadline is running
    boost::asio::steady_timer over;  // never expires; cancelled as a signal to serve()
    boost::asio::steady_timer progress_deadline;
    boost::asio::steady_timer drain_deadline;

  private:
    StoreConnection(ConnectionId number, const boost::asio::any_io_executor& executor)
        : id(number),
          over(executor, boost::asio::steady_timer::time_point::max()),
          progress_deadline(executor),
          drain_deadline(executor) {}

    Sent hand_to_pipe(std::size_t most);
};

}  // namespace base
}  // namespace ddprun
