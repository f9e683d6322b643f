#include "collectives/wire/tcp_link.hpp"

#include <fmt/core.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <memory>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/net/resolver.hpp"
#include "rendezvous/net/socket_owner.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace detail {
namespace {

constexpr int kProbeSeconds = 1;
constexpr int kProbes = 4;
// The kernel doubles it.
constexpr int kLocalBuffer = 1 << 20;

using SocketAddress = boost::asio::ip::tcp::endpoint;

SocketAddress numeric_address(const std::string& host, std::uint16_t port) {
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(host, error);
    if (error) fail(Errc::malformed, fmt::format("'{}' is not a numeric address", host));
    return {address, port};
}

SocketAddress local_address(int fd) {
    SocketAddress address;
    auto length = static_cast<socklen_t>(address.capacity());
    if (::getsockname(fd, address.data(), &length) != 0) fail_errno(errno, "cannot read a socket's address");
    address.resize(length);
    return address;
}

// Nothing if the peer is gone already.
std::optional<SocketAddress> peer_address(int fd) {
    SocketAddress address;
    auto length = static_cast<socklen_t>(address.capacity());
    if (::getpeername(fd, address.data(), &length) != 0) return std::nullopt;
    address.resize(length);
    return address;
}

// All of these may fail without harm: they make things faster or failures visible sooner.
void tune(int fd) {
    const int on = 1;
    const int silence = static_cast<int>(kSilenceTimeout.count());
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kProbeSeconds, sizeof(kProbeSeconds));
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeSeconds, sizeof(kProbeSeconds));
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, sizeof(silence));
}

// Options of a connection within this machine. No packet is lost there, so a congestion control that paces
// packets by timers (BBR) only costs time; and what is on its way should fit into the processor's cache,
// which the kernel's own choice of buffers does not care for. Measured: 5 instead of 2 to 3 GB/s each way
// with BBR as the system's.
void tune_within_machine(int fd) {
    constexpr char kControl[] = "reno";  // always there, and allowed to everybody
    ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kControl, sizeof(kControl) - 1);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kLocalBuffer, sizeof(kLocalBuffer));
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kLocalBuffer, sizeof(kLocalBuffer));
}

ProcessDescriptor open_stream(const SocketAddress& address) {
    const int family = address.protocol().family();
    ProcessDescriptor fd([=] { return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
    if (!fd) fail_errno(errno, "cannot open a socket");
    return fd;
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void TcpLink::shut_down() noexcept { ::shutdown(fd_.get(), SHUT_RDWR); }

void TcpLink::write_no_more() noexcept { ::shutdown(fd_.get(), SHUT_WR); }

void TcpLink::await_arrival() noexcept {
    constexpr int kLatestAcknowledgement = 50;  // milliseconds; no event tells of one
    const Deadline latest = Deadline::clock::now() + kArrivalTimeout;
    int missing = 0;
    while (::ioctl(fd_.get(), SIOCOUTQ, &missing) == 0 && missing > 0 && !has_passed(latest)) {
        pollfd ended{fd_.get(), POLLIN, 0};
        ::poll(&ended, 1, kLatestAcknowledgement);
        std::array<std::byte, 4096> unread;
        ssize_t count = 1;
        while (count > 0) count = ::recv(fd_.get(), unread.data(), unread.size(), MSG_DONTWAIT);
        if (count == 0 || !would_block(errno)) return;
    }
}

std::size_t TcpLink::read_some(std::span<iovec> parts) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t moved = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (moved > 0) return static_cast<std::size_t>(moved);
    if (moved < 0 && would_block(errno)) return 0;
    throw LinkLost{peer_, moved == 0 ? 0 : errno};
}

std::size_t TcpLink::write_some(std::span<iovec> parts) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t moved = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (moved >= 0) return static_cast<std::size_t>(moved);
    if (would_block(errno)) return 0;
    throw LinkLost{peer_, errno};
}

TcpListener::TcpListener(const std::string& address, const std::optional<PortRange>& ports) {
    if (ports) {
        take_port(*ports, {}, address, [&](std::uint16_t port) { return listen_at(address, port); });
    } else if (const int error = listen_at(address, 0); error != 0) {
        fail_errno(error, fmt::format("cannot listen on {} for other ranks", address));
    }
    endpoint_ = {address, local_address(fd_.get()).port()};
}

int TcpListener::listen_at(const std::string& address, std::uint16_t port) {
    const SocketAddress wanted = numeric_address(address, port);
    fd_ = open_stream(wanted);
    // Else each port of which a connection has ended is taken for a minute: programs that split again and
    // again would run out of ports.
    const int on = 1;
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const bool listens = ::bind(fd_.get(), wanted.data(), static_cast<socklen_t>(wanted.size())) == 0 &&
                         ::listen(fd_.get(), SOMAXCONN) == 0;
    return listens ? 0 : errno;
}

ProcessDescriptor TcpListener::accept() {
    return ProcessDescriptor(
        [this] { return ::accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
}

void TcpListener::tune_accepted(int fd) const {
    tune(fd);
    const auto peer = peer_address(fd);
    if (peer && peer->address().to_string() == endpoint_.host) tune_within_machine(fd);
}

bool is_of_another_user(int fd, uid_t own, ConnectionOwners& owners) {
    const auto peer = peer_address(fd);
    if (!peer) return false;
    const SocketAddress local = local_address(fd);
    // Of another machine the kernel knows nothing, and asking costs as much.
    const bool is_here = peer->address().is_loopback() || peer->address() == local.address();
    return is_here && owners.of(*peer, local).is_other_than(own);
}

ProcessDescriptor begin_connect(const Endpoint& endpoint) {
    const SocketAddress address = numeric_address(endpoint.host, endpoint.port);
    ProcessDescriptor fd = open_stream(address);
    tune(fd.get());
    const auto length = static_cast<socklen_t>(address.size());
    if (::connect(fd.get(), address.data(), length) != 0 && errno != EINPROGRESS) {
        fail_errno(errno, "cannot connect to " + to_string(endpoint));
    }
    if (local_address(fd.get()).address().to_string() == endpoint.host) tune_within_machine(fd.get());
    return fd;
}

int connect_error(int fd) {
    int error = 0;
    socklen_t length = sizeof(error);
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
    return error;
}

std::string source_address(const std::string& host) {
    const auto addresses = resolve_host(host);
    if (const auto* why = std::get_if<std::string>(&addresses))
        fail(Errc::unreachable, fmt::format("cannot resolve '{}': {}", host, *why));
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = AI_NUMERICHOST;
    int last_error = EHOSTUNREACH;
    for (const std::string& address : std::get<0>(addresses)) {
        addrinfo* entry = nullptr;
        // Any port will do: connecting a datagram socket only looks up the route.
        if (::getaddrinfo(address.c_str(), "9", &hints, &entry) != 0) continue;
        const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(entry, ::freeaddrinfo);
        OwnedDescriptor fd(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        if (fd && ::connect(fd.get(), entry->ai_addr, entry->ai_addrlen) == 0)
            return local_address(fd.get()).address().to_string();
        last_error = errno;
    }
    fail_errno(last_error, fmt::format("no route to '{}'", host));
}

std::string default_source_address() {
    // Addresses set apart for documentation (RFC 5737, RFC 3849): outside of every real network, so they take
    // the default route.
    for (const char* somewhere : {"192.0.2.1", "2001:db8::1"}) {
        try {
            return source_address(somewhere);
        } catch (const boost::system::system_error&) {
            // No default route in this family.
        }
    }
    return "127.0.0.1";
}

template <class Move>
std::size_t MessageState::move_parts(std::byte* payload, std::size_t size, Move move) {
    const std::size_t header_rest = kHeaderSize - header_done_;
    std::array<iovec, 2> parts{{{header_.data() + header_done_, header_rest}, {payload, size}}};
    const std::size_t count = header_rest + size == 0 ? 0 : move(parts);
    moved_ = count > 0;
    const std::size_t header_part = std::min(count, header_rest);
    header_done_ += header_part;
    return count - header_part;
}

std::size_t MessageWriter::write(const std::byte* payload, std::size_t size) {
    // iovec has no const; sendmsg only reads.
    return move_parts(const_cast<std::byte*>(payload), size,
                      [this](auto& parts) { return link_.write_some(parts); });
}

std::size_t MessageReader::read(std::byte* payload, std::size_t size) {
    return move_parts(payload, size, [this](auto& parts) { return link_.read_some(parts); });
}

}  // namespace detail
}  // namespace ddprun
