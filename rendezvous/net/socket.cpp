#include "rendezvous/net/socket.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <utility>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/net/resolver.hpp"
#include "rendezvous/net/socket_owner.hpp"

namespace ddprun {
inline namespace base {
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// A Race outlives the coroutine that waits for it until the last of its attempts has heard that it is over.
class Race : public std::enable_shared_from_this<Race> {
  public:
    explicit Race(const asio::any_io_executor& executor) : news_(executor) {}

    void start(const tcp::endpoint& address) {
        const int fd =
            ::socket(address.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
        if (fd < 0) return error_.assign(errno, boost::system::system_category());
        attempts_.emplace_back(news_.get_executor(), address.protocol(), fd);
        ++pending_;
        attempts_.back().async_connect(
            address, [self = shared_from_this(), attempt = std::prev(attempts_.end())](
                         boost::system::error_code error) { self->finish(attempt, error); });
    }

    bool is_pending() const { return pending_ > 0; }
    bool is_won() const { return winner_.has_value(); }

    // Waits until an attempt ends, or for the head start of one that the next may join.
    asio::awaitable<void> wait(bool is_last) {
        is_last ? news_.expires_at(asio::steady_timer::time_point::max()) : news_.expires_after(kHeadStart);
        boost::system::error_code ended;
        co_await news_.async_wait(asio::redirect_error(asio::use_awaitable, ended));
    }

    RaceResult take() { return {std::move(winner_), error_}; }

    void end() {
        for (tcp::socket& attempt : attempts_) {
            boost::system::error_code ignored;
            attempt.close(ignored);
        }
    }

  private:
    void finish(std::list<tcp::socket>::iterator attempt, boost::system::error_code error) {
        --pending_;
        if (error) {
            error_ = error;
        } else if (!is_won()) {
            winner_.emplace(std::move(*attempt));
        }
        news_.cancel();
    }

    asio::steady_timer news_;
    std::list<tcp::socket> attempts_;
    int pending_ = 0;
    std::optional<tcp::socket> winner_;
    boost::system::error_code error_ = asio::error::host_unreachable;
};

}  // namespace

asio::awaitable<RaceResult> race_to_connect(std::vector<tcp::endpoint> addresses) {
    const auto race = std::make_shared<Race>(co_await asio::this_coro::executor);
    // It also ends if this coroutine is given up meanwhile.
    const std::shared_ptr<void> end(nullptr, [race](void*) { race->end(); });
    for (std::size_t next = 0; !race->is_won() && (next < addresses.size() || race->is_pending());) {
        if (next < addresses.size()) race->start(addresses[next++]);
        if (race->is_pending()) co_await race->wait(next == addresses.size());
    }
    co_return race->take();
}

namespace {

// When every descriptor is in use, or where a filter of system calls forbids it, accept fails at once and
// forever; no event says when it works again.
constexpr std::chrono::milliseconds kAcceptTroubleWait{50};

// A free port on loopback may turn out so often to be taken on another address.
constexpr int kFreePortAttempts = 20;

// The longest pause before what was lost is sent again; the option (of Linux 6.15 and newer) is not in every
// system's headers.
constexpr int kTcpRtoMaxMs = 44;
constexpr int kLongestRetransmitMs = 1000;

// A connection that was taken has these until somebody asks otherwise: if its other side is cut off it ends,
// also where nobody ever speaks.
constexpr int kTakenIdleSeconds = 60;
constexpr int kTakenIntervalSeconds = 10;
constexpr int kTakenProbes = 6;

// A silent peer is asked so often before its connection is given up.
constexpr int kProbes = 3;

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

// Connects the descriptor; returns 0 or the errno.
int connect_one(const addrinfo& address, Deadline deadline, const OwnedDescriptor& fd) {
    if (!fd) return errno;
    if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    for (;;) {
        if (has_passed(deadline)) return ETIMEDOUT;
        pollfd event{fd.get(), POLLOUT, 0};
        const int ready = ::poll(&event, 1, poll_timeout(deadline));
        if (ready < 0 && errno != EINTR) return errno;
        if (ready <= 0) continue;
        int error = 0;
        socklen_t size = sizeof error;
        ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        return error;
    }
}

void set_no_delay(int fd) {
    int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// The outcome of an attempt to connect: a connected socket, or what went wrong. Not thrown, because an
// attempt that throws would not end a race against a timer.
struct Attempt {
    std::optional<tcp::socket> socket;
    std::string cause;
    bool is_refused = false;
};

// Sets `is_resolved` as soon as the name has been asked about, for who waits no longer.
asio::awaitable<Attempt> connect_to_any(const Endpoint& endpoint, bool& is_resolved) {
    const Resolved found = co_await async_resolve_host(endpoint.host);
    is_resolved = true;
    if (const auto* why = std::get_if<std::string>(&found))
        co_return Attempt{std::nullopt, fmt::format("cannot resolve {}: {}", endpoint.host, *why)};
    std::vector<tcp::endpoint> addresses;
    for (const std::string& address : std::get<std::vector<std::string>>(found))
        addresses.emplace_back(asio::ip::make_address(address), endpoint.port);
    const tcp::endpoint last = addresses.back();
    RaceResult result = co_await race_to_connect(std::move(addresses));
    if (result.socket) {
        set_no_delay(result.socket->native_handle());
        co_return Attempt{std::move(result.socket), {}};
    }
    std::string cause = fmt::format("cannot connect to {}: {}", to_string(endpoint), result.error.message());
    // A machine's own name is often 127.0.1.1 in its /etc/hosts.
    if (last.address().is_loopback())
        cause += fmt::format(" ({} is a loopback address, this machine itself)", last.address().to_string());
    co_return Attempt{std::nullopt, cause, result.error == asio::error::connection_refused};
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

void keep_alive(int fd, int idle_s, int interval_s, int probes) {
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

void limit_silence(tcp::socket& socket, std::chrono::milliseconds timeout) {
    const int fd = socket.native_handle();
    // Lost bytes are sent again soon, also after a while without a network: the pauses do not double.
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_TCP, kTcpRtoMaxMs, &kLongestRetransmitMs, sizeof kLongestRetransmitMs);
    const int user_timeout = static_cast<int>(timeout.count());
    // The first question comes after half of the time, the others in the rest of it.
    const int idle_s = std::max(1, user_timeout / 2000);
    keep_alive(fd, idle_s, std::max(1, idle_s / kProbes), kProbes);
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof user_timeout);
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

int connect_tcp(const Endpoint& endpoint, std::chrono::milliseconds timeout) {
    const Deadline deadline = Deadline::clock::now() + timeout;
    const auto found = resolve_host(endpoint.host, timeout);
    if (const auto* why = std::get_if<std::string>(&found))
        fail(Errc::unreachable, fmt::format("cannot resolve {}: {}", endpoint.host, *why));
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST;
    const std::string port = std::to_string(endpoint.port);
    auto untried = static_cast<int>(std::get<0>(found).size());
    int last_error = EHOSTUNREACH;
    for (const std::string& numeric : std::get<0>(found)) {
        addrinfo* list = nullptr;
        if (::getaddrinfo(numeric.c_str(), port.c_str(), &hints, &list) != 0) continue;
        const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> address(list, &::freeaddrinfo);
        OwnedDescriptor fd(
            ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
        // One that leads nowhere leaves the others their share of the time.
        const Deadline turn = Deadline::clock::now() + time_until(deadline) / untried--;
        last_error = connect_one(*address, turn, fd);
        if (last_error != 0) continue;
        set_no_delay(fd.get());
        ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
        return fd.release();
    }
    const Errc code = last_error == ETIMEDOUT ? Errc::timed_out : Errc::unreachable;
    fail(code, fmt::format("cannot connect to {}: {}", to_string(endpoint), std::strerror(last_error)));
}

asio::awaitable<tcp::socket> async_connect_tcp(Endpoint endpoint, std::chrono::milliseconds timeout) {
    using namespace asio::experimental::awaitable_operators;
    auto executor = co_await asio::this_coro::executor;
    asio::steady_timer deadline(executor, timeout);
    bool is_resolved = false;
    auto first = co_await (connect_to_any(endpoint, is_resolved) || deadline.async_wait(asio::use_awaitable));
    if (first.index() == 1) {
        fail(Errc::timed_out,
             is_resolved ? fmt::format("cannot connect to {}: timed out", to_string(endpoint))
                         : fmt::format("cannot resolve {}: {}", endpoint.host, no_answer_within(timeout)));
    }
    Attempt attempt = std::move(std::get<0>(first));
    if (!attempt.socket) fail(Errc::unreachable, attempt.cause);
    co_return std::move(*attempt.socket);
}

asio::awaitable<bool> is_refused(Endpoint endpoint, std::chrono::milliseconds timeout) {
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer deadline(co_await asio::this_coro::executor, timeout);
    bool is_resolved = false;
    for (;;) {
        auto first =
            co_await (connect_to_any(endpoint, is_resolved) || deadline.async_wait(asio::use_awaitable));
        if (first.index() == 1) co_return false;
        Attempt& attempt = std::get<0>(first);
        if (!attempt.socket) co_return attempt.is_refused;
        // The listener may be dying, with its sockets closed one after the other; then this connection ends,
        // too.
        char byte = 0;
        boost::system::error_code ended;
        const auto read =
            co_await (attempt.socket->async_read_some(asio::buffer(&byte, 1),
                                                      asio::redirect_error(asio::use_awaitable, ended)) ||
                      deadline.async_wait(asio::use_awaitable));
        if (read.index() == 1 || !ended) co_return false;
    }
}

namespace {

int make_epoll() {
    int fd = ::epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) fail_errno(errno, "cannot make an epoll set for the store");
    return fd;
}

void control(int set, int operation, int fd, std::uint64_t id, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    if (::epoll_ctl(set, operation, fd, &event) != 0)
        fail_errno(errno, "cannot wait for a connection of the store");
}

}  // namespace

ReadySet::ReadySet(const boost::asio::any_io_executor& executor) : descriptor_(executor, make_epoll()) {}

void ReadySet::add(int fd, std::uint64_t id, std::uint32_t events) {
    control(this->fd(), EPOLL_CTL_ADD, fd, id, events);
    ++size_;
}

void ReadySet::change(int fd, std::uint64_t id, std::uint32_t events) {
    control(this->fd(), EPOLL_CTL_MOD, fd, id, events);
}

void ReadySet::remove(int fd) {
    control(this->fd(), EPOLL_CTL_DEL, fd, 0, 0);
    --size_;
}

std::span<const epoll_event> ReadySet::take() {
    int count = ::epoll_wait(fd(), events_.data(), static_cast<int>(events_.size()), 0);
    return {events_.data(), static_cast<std::size_t>(count > 0 ? count : 0)};
}

void ReadySet::async_wait(std::function<void()> handler) {
    descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [handler = std::move(handler)](boost::system::error_code) { handler(); });
}

void ReadySet::cancel() { descriptor_.cancel(); }

}  // namespace base
}  // namespace ddprun
