// StoreConnection is one client of a StoreService, by a socket or by a StorePipe.
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

#include "rendezvous/store/outbox.hpp"
#include "rendezvous/store/wait_table.hpp"
#include "rendezvous/store/wire.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace base {

// StorePipe is a client of the store without a socket of its own: one of many that share an agent's
// connection (see door/door_link.hpp).
//
// The owner of that connection implements it. StoreService calls it on the store's thread, often while it
// serves many clients: an implementation only notes what it is told, and calls no function of StoreService in
// return.
class StorePipe {
  public:
    StorePipe() = default;
    StorePipe(const StorePipe&) = delete;
    StorePipe& operator=(const StorePipe&) = delete;
    virtual ~StorePipe() = default;

    // Takes as many of these bytes as there is room for, and returns how many. After a part only, the owner
    // calls StoreService::resume() when there is room again.
    virtual std::size_t take(std::span<const iovec> pieces) = 0;
    // Tells that this number of fed bytes is served; as many may be fed again.
    virtual void served(std::size_t bytes) = 0;
    // Tells that the store has ended the conversation, behind the bytes that were taken. The last call.
    virtual void ended() = 0;
};

// StoreConnection is what StoreService keeps of one client, on the store's thread. The coroutine that serves
// the client's socket owns it; StoreService owns it for a pipe.
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
    // Counts the memory that this connection's buffers alone take.
    std::size_t buffered() const { return is_open() ? outbox.capacity() + decoder.capacity() : 0; }
    // Counts the memory that the connection makes the store hold: its buffers, and the replies not yet sent.
    std::size_t holds() const { return buffered() + outbox.pending(); }

    enum class Sent { all, rest_later, broken };
    // Sends what the socket takes, up to one turn's bytes, so that other connections have their turn.
    Sent send_turn();
    void cancel_deadlines();

    ConnectionId id;
    OwnedDescriptor fd;               // the client's socket …
    std::shared_ptr<StorePipe> pipe;  // … or the pipe instead
    std::size_t fed = 0;              // bytes from the pipe that it was not yet told are served
    RequestDecoder decoder;
    Outbox outbox;
    bool has_finished = false;       // the pipe feeds no more
    std::size_t accounted = 0;       // of buffered(), in the sum over all connections
    std::uint32_t events = EPOLLIN;  // what ReadySet is asked for
    std::uint64_t received = 0;      // bytes
    std::uint64_t requests = 0;      // complete ones
    bool dirty = false;              // the outbox got replies in this batch
    bool overflown = false;          // events of its watches exceed the room in the outbox
    bool unfinished = false;         // complete requests wait in the decoder
    bool draining = false;           // the socket is full; no more is sent until it takes more
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
