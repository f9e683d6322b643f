// TCP sockets as ddprun wants them: close-on-exec from birth, no delay, every wait bounded.
//
// Asio neither sets close-on-exec nor offers it at creation, and a worker forked in between would inherit the
// descriptor; therefore sockets are made here and then handed to Asio. Any thread may call these functions.
#pragma once

#include <sys/epoll.h>
#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace base {

// An address gets this before the next one is tried beside it.
inline constexpr std::chrono::milliseconds kHeadStart{250};

struct RaceResult {
    std::optional<boost::asio::ip::tcp::socket> socket;  // connected
    boost::system::error_code error;                     // otherwise: how the last one failed
};

// Connects to a host with at least one address, of which some may lead nowhere. Each next address is tried a
// moment after the one before it (RFC 8305), or at once when that has failed; the first that answers wins.
// Never throws for a failed connection; ends what it has begun when it is cancelled. On the thread of the
// coroutine's executor.
boost::asio::awaitable<RaceResult> race_to_connect(std::vector<boost::asio::ip::tcp::endpoint> addresses);

enum class ListenScope { loopback, any };

// Makes a listening TCP socket: close-on-exec, non-blocking, backlog as large as the kernel allows.
// `loopback` is 127.0.0.1; `any` is [::] for both families, or 0.0.0.0 where IPv6 is off. Port 0 takes a free
// one. Throws Errc::address_in_use (with the holder's pid and command where /proc shows them) or an errno.
boost::asio::ip::tcp::acceptor listen_tcp(const boost::asio::any_io_executor& executor, ListenScope scope,
                                          std::uint16_t port);

// Does the same for what the plan says: one socket for each address, all with the same port, the one on
// loopback (if there is one) first. Port 0 takes one of `free_ports`; throws as take_port does where these
// have a range.
std::vector<boost::asio::ip::tcp::acceptor> listen_tcp(const boost::asio::any_io_executor& executor,
                                                       const ListenPlan& plan, std::uint16_t port,
                                                       const FreePorts& free_ports = {});

// Takes over sockets that listen already; close-on-exec and non-blocking.
std::vector<boost::asio::ip::tcp::acceptor> adopt_listeners(const boost::asio::any_io_executor& executor,
                                                            std::vector<OwnedDescriptor> sockets);

// Asks the other side of an idle connection, after so many seconds and then at each interval, whether it is
// there; so many questions without an answer end the connection. Best effort.
void keep_alive(int fd, int idle_s, int interval_s, int probes);

// Ends a connection whose other side was not heard of for `timeout`: cut off, frozen or gone. Data under way
// and an idle connection count alike. Best effort: what the system does not know is left out.
void limit_silence(boost::asio::ip::tcp::socket& socket, std::chrono::milliseconds timeout);

// So many connections are taken in a row before the executor's other work has its turn.
inline constexpr int kAcceptsPerTurn = 64;

// Takes each connection that comes: close-on-exec, non-blocking, no delay, kept alive. Ends only by throwing
// what accept4 says when the listener itself is broken; a peer that is gone already is passed over. When
// descriptors have run out, or the system says anything unknown, it waits a moment and goes on.
boost::asio::awaitable<void> accept_each(boost::asio::ip::tcp::acceptor& acceptor,
                                         std::function<void(boost::asio::ip::tcp::socket)> take);

// Connects to the first address of `endpoint` that answers; blocking, `timeout` in all. Returns a connected
// descriptor (close-on-exec, no delay, blocking). Throws Errc::unreachable whose message gives the cause:
// name not resolved, refused, no route; or Errc::timed_out.
int connect_tcp(const Endpoint& endpoint, std::chrono::milliseconds timeout);

// Does the same without blocking, for the agent, which must hear signals while it connects.
boost::asio::awaitable<boost::asio::ip::tcp::socket> async_connect_tcp(Endpoint endpoint,
                                                                       std::chrono::milliseconds timeout);

// True if a machine answers there, and says that nobody listens, or no longer does so within that time.
boost::asio::awaitable<bool> is_refused(Endpoint endpoint, std::chrono::milliseconds timeout);

// ReadySet tells which of many sockets are ready, in batches.
//
// An epoll set of its own, nested in the executor's. Asio tells that something is ready; take() then says
// what, for all sockets in one system call. A busy server so reads each socket exactly once per request, and
// can answer a batch together, where Asio's own reads would first ask in vain. Level-triggered: what is left
// undone is reported again. Owned by one object and used on its thread.

class ReadySet {
  public:
    explicit ReadySet(const boost::asio::any_io_executor& executor);

    // `events` are those of epoll; 0 keeps the socket in the set but asks for errors only. `id` comes back
    // with it.
    void add(int fd, std::uint64_t id, std::uint32_t events);
    void change(int fd, std::uint64_t id, std::uint32_t events);
    // It is called before the socket is closed: a forked child may hold it open for a moment, and with it the
    // registration.
    void remove(int fd);

    // Returns what is ready now, without waiting; valid until the next call.
    std::span<const epoll_event> take();

    // Calls the handler once when something is ready, or when cancelled.
    void async_wait(std::function<void()> handler);
    void cancel();

    bool empty() const { return size_ == 0; }

  private:
    int fd() { return descriptor_.native_handle(); }

    boost::asio::posix::stream_descriptor descriptor_;
    std::array<epoll_event, 256> events_;
    std::size_t size_ = 0;
};

}  // namespace base
}  // namespace ddprun
