// listen_tcp(), connect_tcp() and the others make TCP sockets as ddprun needs them: close-on-exec from their
// creation, no delay, every wait bounded.
//
// Asio neither sets close-on-exec nor offers it at creation, and a worker forked in between would inherit the
// descriptor; therefore sockets are made here and then handed to Asio. Any thread.
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

// kHeadStart: how long an address is tried alone before the next one is tried beside it.
inline constexpr std::chrono::milliseconds kHeadStart{250};

struct RaceResult {
    std::optional<boost::asio::ip::tcp::socket> socket;  // connected
    boost::system::error_code error;                     // without a socket: how the last attempt failed
};

// Connects to a host with at least one address, of which some may lead nowhere. Each next address is tried
// kHeadStart after the one before (RFC 8305), or at once when that one has failed; the first connection wins.
// Never throws for a failed connection; closes all attempts when cancelled. On the thread of the coroutine's
// executor.
boost::asio::awaitable<RaceResult> race_to_connect(std::vector<boost::asio::ip::tcp::endpoint> addresses);

enum class ListenScope { loopback, any };

// Makes a listening TCP socket: close-on-exec, non-blocking, with the largest backlog that the kernel allows.
// `loopback` is 127.0.0.1; `any` is [::] for both families, or 0.0.0.0 where IPv6 is off. Port 0 takes a free
// one. Throws Errc::address_in_use (with the holder's pid and command where /proc shows them) or an errno.
boost::asio::ip::tcp::acceptor listen_tcp(const boost::asio::any_io_executor& executor, ListenScope scope,
                                          std::uint16_t port);

// Makes the listening sockets of the plan: one for each address, all with the same port, the one on loopback
// (if there is one) first. Port 0 takes one of `free_ports`; throws as take_port does where `free_ports` has
// a range.
std::vector<boost::asio::ip::tcp::acceptor> listen_tcp(const boost::asio::any_io_executor& executor,
                                                       const ListenPlan& plan, std::uint16_t port,
                                                       const FreePorts& free_ports = {});

// Takes over sockets that listen already; they are close-on-exec and non-blocking.
std::vector<boost::asio::ip::tcp::acceptor> adopt_listeners(const boost::asio::any_io_executor& executor,
                                                            std::vector<OwnedDescriptor> sockets);

// Makes the kernel probe an idle connection, after `idle_s` seconds and then every `interval_s`; `probes`
// without an answer end it. Best effort.
void keep_alive(int fd, int idle_s, int interval_s, int probes);

// Ends a connection with a silent peer after `timeout`: cut off, frozen or gone, whether data is under way or
// the connection is idle. Best effort: options that the system does not know are left out.
void limit_silence(boost::asio::ip::tcp::socket& socket, std::chrono::milliseconds timeout);

// kAcceptsPerTurn: how many connections are taken in a row before the executor's other work has its turn.
inline constexpr int kAcceptsPerTurn = 64;

// Passes each new connection to `take`: close-on-exec, non-blocking, without delay, kept alive. Throws
// accept4's error when the listener itself is broken, and does not return otherwise. A peer that is gone
// already is passed over. When descriptors have run out, or on any unknown error, waits a moment and goes on.
boost::asio::awaitable<void> accept_each(boost::asio::ip::tcp::acceptor& acceptor,
                                         std::function<void(boost::asio::ip::tcp::socket)> take);

// Connects to the first address of `endpoint` that answers; blocking, for `timeout` in all. Returns a
// connected descriptor (close-on-exec, no delay, blocking). Throws Errc::timed_out, or Errc::unreachable with
// the cause in its message: name not resolved, refused, no route.
int connect_tcp(const Endpoint& endpoint, std::chrono::milliseconds timeout);

// Connects like connect_tcp() without blocking, for the agent, which must hear signals while it connects.
boost::asio::awaitable<boost::asio::ip::tcp::socket> async_connect_tcp(Endpoint endpoint,
                                                                       std::chrono::milliseconds timeout);

// Says whether a machine answers at the endpoint, and refuses the connection, now or within `timeout`.
boost::asio::awaitable<bool> is_refused(Endpoint endpoint, std::chrono::milliseconds timeout);

// ReadySet tells which of many sockets are ready, in batches.
//
// A ReadySet is an epoll set, nested in the executor's: Asio tells that a socket is ready, and take() says
// which, for all sockets in one system call. A busy server thus reads each socket once per request, and can
// answer a batch together, where Asio's own reads would first try in vain. Level-triggered: what is left
// undone is reported again. Owned by one object and used on its thread.
class ReadySet {
  public:
    explicit ReadySet(const boost::asio::any_io_executor& executor);

    // Adds a socket. `events` are epoll's; with 0 only errors are reported. take() returns `id` with each
    // event.
    void add(int fd, std::uint64_t id, std::uint32_t events);
    void change(int fd, std::uint64_t id, std::uint32_t events);
    // Removes a socket, before it is closed: a forked child may hold the socket, and with it the
    // registration, open for a moment.
    void remove(int fd);

    // Returns what is ready now, without waiting; valid until the next call.
    std::span<const epoll_event> take();

    // Calls the handler once, when a socket is ready or the wait is cancelled.
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
