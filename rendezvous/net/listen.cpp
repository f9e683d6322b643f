#include "rendezvous/net/listen.hpp"

#include <fmt/core.h>
#include <sys/socket.h>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/net/socket_owner.hpp"

namespace ddprun {
inline namespace base {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// When every descriptor is in use, or where a filter of system calls forbids it, accept fails at once and
// forever; no event says when it works again.
constexpr std::chrono::milliseconds kAcceptTroubleWait{50};

// A free port on loopback may turn out so often to be taken on another address.
constexpr int kFreePortAttempts = 20;

// A connection that was taken has these until somebody asks otherwise: if its other side is cut off it ends,
// also where nobody ever speaks.
constexpr int kTakenIdleSeconds = 60;
constexpr int kTakenIntervalSeconds = 10;
constexpr int kTakenProbes = 6;

[[noreturn]] void fail_listen(int error_number, const std::string& host, std::uint16_t port) {
    std::string where = to_string(Endpoint{host, port});
    if (error_number != EADDRINUSE) fail_errno(error_number, "cannot listen on " + where);
    const auto owner = find_port_owner(port);
    const bool is_ddprun = owner && owner->command.find("ddprun") != std::string::npos;
    fail(Errc::address_in_use,
         fmt::format(
             "cannot listen on {}{}; choose another port with --master-port, or leave it out on one node{}",
             where, owner ? fmt::format(", held by pid {} ({})", owner->pid, owner->command) : "",
             is_ddprun ? "; on another node of that job give its --node-rank" : ""));
}

// Returns a bound and listening descriptor, or -errno.
int open_listener(const tcp::endpoint& where) {
    const int family = where.protocol().family();
    OwnedDescriptor fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    if (!fd) return -errno;
    const int on = 1, off = 0;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const auto size = static_cast<socklen_t>(where.size());
    if (::bind(fd.get(), where.data(), size) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) return -errno;
    return fd.release();
}

// Listeners listen on all of several addresses at one port, or say where and why that failed (an errno).
struct Listeners {
    std::vector<tcp::acceptor> acceptors;
    int error_number = 0;
    std::string address;
    std::uint16_t port = 0;
};

// The first address is loopback's. Port 0 takes one that is free on that.
Listeners listen_at(const asio::any_io_executor& executor, const std::vector<std::string>& addresses,
                    std::uint16_t port) {
    Listeners listeners;
    for (const std::string& text : addresses) {
        const tcp::endpoint where(asio::ip::make_address(text), port);
        const int fd = open_listener(where);
        // A machine whose loopback interface is down has none of it.
        if (fd == -EADDRNOTAVAIL && addresses.size() > 1 && &text == &addresses.front()) continue;
        if (fd < 0) return {{}, -fd, text, port};
        listeners.acceptors.emplace_back(executor, where.protocol(), fd);
        port = listeners.acceptors.back().local_endpoint().port();
    }
    return listeners;
}

// Listens on all addresses, or those of IPv4 where IPv6 is off here; the descriptor, or -errno.
struct ListenerAnywhere {
    tcp protocol;
    int fd = -1;
};
ListenerAnywhere open_anywhere(std::uint16_t port) {
    const int fd = open_listener({tcp::v6(), port});
    if (fd >= 0 || fd == -EADDRINUSE || fd == -EACCES) return {tcp::v6(), fd};
    return {tcp::v4(), open_listener({asio::ip::address_v4::any(), port})};
}

std::vector<tcp::acceptor> listen_anywhere(const asio::any_io_executor& executor, std::uint16_t port,
                                           const FreePorts& free_ports) {
    std::vector<tcp::acceptor> acceptors;
    if (port != 0 || !free_ports.range) {
        acceptors.push_back(listen_tcp(executor, ListenScope::any, port));
        return acceptors;
    }
    take_port(*free_ports.range, free_ports.spared, "::", [&](std::uint16_t candidate) {
        const ListenerAnywhere opened = open_anywhere(candidate);
        if (opened.fd < 0) return -opened.fd;
        acceptors.emplace_back(executor, opened.protocol, opened.fd);
        return 0;
    });
    return acceptors;
}

bool has_address(const std::string& address) {
    const tcp::endpoint where(asio::ip::make_address(address), 0);
    const OwnedDescriptor fd(
        ::socket(where.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    return fd && ::bind(fd.get(), where.data(), static_cast<socklen_t>(where.size())) == 0;
}

}  // namespace

tcp::acceptor listen_tcp(const asio::any_io_executor& executor, ListenScope scope, std::uint16_t port) {
    if (scope == ListenScope::any) {
        const ListenerAnywhere opened = open_anywhere(port);
        if (opened.fd < 0) fail_listen(-opened.fd, opened.protocol == tcp::v6() ? "::" : "0.0.0.0", port);
        return {executor, opened.protocol, opened.fd};
    }
    const auto address = asio::ip::address_v4::loopback();
    const int fd = open_listener({address, port});
    if (fd < 0) fail_listen(-fd, address.to_string(), port);
    return {executor, tcp::v4(), fd};
}

std::vector<tcp::acceptor> listen_tcp(const asio::any_io_executor& executor, const ListenPlan& plan,
                                      std::uint16_t port, const FreePorts& free_ports) {
    // A machine may only know IPv6. On one without any network nobody calls, so all addresses will do.
    const std::string loopback = has_address("127.0.0.1") ? "127.0.0.1" : "::1";
    if (plan.any || (plan.addresses.empty() && !has_address(loopback)))
        return listen_anywhere(executor, port, free_ports);
    std::vector<std::string> addresses{loopback};
    std::copy_if(plan.addresses.begin(), plan.addresses.end(), std::back_inserter(addresses),
                 [&](const std::string& address) { return address != loopback; });
    Listeners listeners;
    if (port == 0 && free_ports.range) {
        take_port(*free_ports.range, free_ports.spared, addresses.back(), [&](std::uint16_t candidate) {
            listeners = listen_at(executor, addresses, candidate);
            return listeners.error_number;
        });
        return std::move(listeners.acceptors);
    }
    for (int attempt = 1;; ++attempt) {
        listeners = listen_at(executor, addresses, port);
        if (listeners.error_number == 0) return std::move(listeners.acceptors);
        const bool other_port =
            listeners.error_number == EADDRINUSE && port == 0 && attempt < kFreePortAttempts;
        if (!other_port) fail_listen(listeners.error_number, listeners.address, listeners.port);
    }
}

std::vector<tcp::acceptor> adopt_listeners(const asio::any_io_executor& executor,
                                           std::vector<OwnedDescriptor> sockets) {
    std::vector<tcp::acceptor> acceptors;
    for (OwnedDescriptor& socket : sockets) {
        sockaddr_storage address{};
        socklen_t size = sizeof address;
        if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
            fail_errno(errno, "cannot listen on a socket that was taken over");
        acceptors.emplace_back(executor, address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(),
                               socket.release());
    }
    return acceptors;
}

asio::awaitable<void> accept_each(tcp::acceptor& acceptor, std::function<void(tcp::socket)> take) {
    const auto executor = acceptor.get_executor();
    asio::steady_timer pause(executor);
    for (int taken = 0;;) {
        const int fd = ::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            set_no_delay(fd);
            keep_alive(fd, kTakenIdleSeconds, kTakenIntervalSeconds, kTakenProbes);
            take(tcp::socket(executor, acceptor.local_endpoint().protocol(), fd));
            if (++taken % kAcceptsPerTurn == 0) co_await asio::post(executor, asio::use_awaitable);
            continue;
        }
        switch (errno) {
            case EAGAIN: co_await acceptor.async_wait(tcp::acceptor::wait_read, asio::use_awaitable); break;
            case EBADF:
            case EINVAL:
            case ENOTSOCK: fail_errno(errno, "cannot accept connections");
            // That connection broke before it was taken; the next one may be fine.
            case ECONNABORTED:
            case EINTR: break;
            default: pause.expires_after(kAcceptTroubleWait); co_await pause.async_wait(asio::use_awaitable);
        }
    }
}

}  // namespace base
}  // namespace ddprun
