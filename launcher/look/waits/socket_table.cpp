#include "launcher/look/waits/socket_table.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <type_traits>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using Bytes = std::span<const std::byte>;

constexpr unsigned kListens = 10;  // TCP_LISTEN, also of local sockets
constexpr unsigned kTimeWait = 6;  // TCP_TIME_WAIT: has no process
constexpr std::size_t kDatagram = 32UL * 1024;
constexpr std::size_t kAlignment = 4;  // of messages and attributes

// Of struct tcp_info, whose older description in <netinet/tcp.h> ends before them.
constexpr std::size_t kBytesReceived = 128;
constexpr std::size_t kBytesSent = 200;

constexpr std::size_t aligned(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

template <class T>
std::optional<T> value_at(Bytes bytes, std::size_t offset) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (bytes.size() < offset || bytes.size() - offset < sizeof(T)) return std::nullopt;
    T value{};
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
}

// Calls `take` with the type and the content of each attribute.
template <class Take>
void each_attribute(Bytes bytes, const Take& take) {
    while (const auto head = value_at<rtattr>(bytes, 0)) {
        if (head->rta_len < sizeof(rtattr) || head->rta_len > bytes.size()) return;
        take(head->rta_type, bytes.subspan(sizeof(rtattr), head->rta_len - sizeof(rtattr)));
        bytes = bytes.subspan(std::min(bytes.size(), aligned(head->rta_len)));
    }
}

InternetAddress address_of(const __be32 (&words)[4], __be16 port, unsigned family) {
    InternetAddress address;
    address.port = ntohs(port);
    if (family == AF_INET6) {
        std::memcpy(address.bytes.data(), words, sizeof(words));
    } else {
        address.bytes[10] = address.bytes[11] = 0xff;
        std::memcpy(address.bytes.data() + 12, words, sizeof(words[0]));
    }
    return address;
}

std::optional<SocketEntry> tcp_socket(Bytes content) {
    const auto message = value_at<inet_diag_msg>(content, 0);
    if (!message) return std::nullopt;
    SocketEntry socket;
    socket.inode = message->idiag_inode;
    socket.is_listening = message->idiag_state == kListens;
    socket.local = address_of(message->id.idiag_src, message->id.idiag_sport, message->idiag_family);
    socket.remote = address_of(message->id.idiag_dst, message->id.idiag_dport, message->idiag_family);
    socket.own.unread = message->idiag_rqueue;
    socket.own.unsent = message->idiag_wqueue;
    each_attribute(content.subspan(aligned(sizeof(inet_diag_msg))), [&](unsigned type, Bytes bytes) {
        if (type != INET_DIAG_INFO) return;
        socket.own.received = value_at<std::uint64_t>(bytes, kBytesReceived).value_or(0);
        socket.own.sent = value_at<std::uint64_t>(bytes, kBytesSent).value_or(0);
    });
    return socket;
}

std::optional<SocketEntry> local_socket(Bytes content) {
    const auto message = value_at<unix_diag_msg>(content, 0);
    if (!message) return std::nullopt;
    SocketEntry socket;
    socket.is_local = true;
    socket.inode = message->udiag_ino;
    socket.is_listening = message->udiag_state == kListens;
    each_attribute(content.subspan(aligned(sizeof(unix_diag_msg))), [&](unsigned type, Bytes bytes) {
        if (type == UNIX_DIAG_NAME) {
            socket.name.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            if (!socket.name.empty() && socket.name.front() == '\0') socket.name.front() = '@';
            if (!socket.name.starts_with('@')) socket.name.resize(std::strlen(socket.name.c_str()));
        }
        if (type == UNIX_DIAG_PEER) socket.other_inode = value_at<std::uint32_t>(bytes, 0).value_or(0);
        const auto queues = type == UNIX_DIAG_RQLEN ? value_at<unix_diag_rqlen>(bytes, 0) : std::nullopt;
        if (queues) socket.own.unread = queues->udiag_rqueue;
        if (queues) socket.own.unsent = queues->udiag_wqueue;
    });
    return socket;
}

template <class Request>
struct Question {
    nlmsghdr head{};
    Request request{};
};

template <class Request>
void ask_for(std::uint16_t type, const Request& request, Deadline deadline,
             std::vector<SocketEntry>& sockets) {
    const OwnedDescriptor kernel(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    const auto left = time_until(deadline);
    if (!kernel || left.count() == 0) return;
    // Answers are made while they are taken: a wait is none but for a kernel that is out of memory.
    const timeval most{left.count() / 1000, left.count() % 1000 * 1000};
    ::setsockopt(kernel.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    Question<Request> question;
    question.head.nlmsg_len = sizeof(question);
    question.head.nlmsg_type = type;
    question.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    question.request = request;
    if (::send(kernel.get(), &question, sizeof(question), 0) < 0) return;
    std::vector<std::byte> datagram(kDatagram);
    while (sockets.size() < kMaxSockets && !has_passed(deadline)) {
        const ssize_t count = ::recv(kernel.get(), datagram.data(), datagram.size(), 0);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0 || !parse_sockets(Bytes(datagram).first(static_cast<std::size_t>(count)), sockets))
            return;
    }
}

}  // namespace

std::string to_string(const InternetAddress& address) {
    if (address == InternetAddress()) return {};
    const auto* bytes = address.bytes.data();
    std::array<char, INET6_ADDRSTRLEN> text{};
    in6_addr six{};
    std::memcpy(&six, bytes, sizeof(six));
    const bool is_four = IN6_IS_ADDR_V4MAPPED(&six) != 0;
    ::inet_ntop(is_four ? AF_INET : AF_INET6, is_four ? bytes + 12 : bytes, text.data(), text.size());
    return is_four ? fmt::format("{}:{}", text.data(), address.port)
                   : fmt::format("[{}]:{}", text.data(), address.port);
}

bool parse_sockets(std::span<const std::byte> datagram, std::vector<SocketEntry>& sockets) {
    while (const auto head = value_at<nlmsghdr>(datagram, 0)) {
        const bool is_whole = head->nlmsg_len >= sizeof(nlmsghdr) && head->nlmsg_len <= datagram.size();
        if (!is_whole || (head->nlmsg_type != SOCK_DIAG_BY_FAMILY && head->nlmsg_type != TCPDIAG_GETSOCK))
            return false;
        const Bytes content = datagram.subspan(sizeof(nlmsghdr), head->nlmsg_len - sizeof(nlmsghdr));
        const bool is_local = !content.empty() && content.front() == std::byte{AF_UNIX};
        const auto socket = is_local ? local_socket(content) : tcp_socket(content);
        if (!socket) return false;
        if (socket->inode != 0 && sockets.size() < kMaxSockets) sockets.push_back(*socket);
        datagram = datagram.subspan(std::min(datagram.size(), aligned(head->nlmsg_len)));
    }
    return datagram.empty();
}

SocketTable::SocketTable(std::vector<SocketEntry> sockets) : sockets_(std::move(sockets)) {
    for (std::size_t place = 0; place < sockets_.size(); ++place) {
        const SocketEntry& socket = sockets_[place];
        by_inode_.emplace(socket.inode, place);
        if (!socket.is_local && !socket.is_listening)
            by_ends_.emplace(std::pair(socket.local, socket.remote), place);
    }
}

SocketTable SocketTable::read(Deadline deadline) {
    std::vector<SocketEntry> sockets;
    // The older question: its answer has both families in one walk through the kernel's table, which takes
    // milliseconds.
    inet_diag_req connections{};
    connections.idiag_family = AF_INET;
    connections.idiag_ext = 1 << (INET_DIAG_INFO - 1);
    connections.idiag_states = ~(1U << kTimeWait);
    ask_for(TCPDIAG_GETSOCK, connections, deadline, sockets);
    unix_diag_req request{};
    request.sdiag_family = AF_UNIX;
    request.udiag_states = ~0U;
    request.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN;
    ask_for(SOCK_DIAG_BY_FAMILY, request, deadline, sockets);
    return SocketTable(std::move(sockets));
}

const SocketEntry* SocketTable::find(std::uint64_t inode) const {
    const auto place = by_inode_.find(inode);
    return place == by_inode_.end() ? nullptr : &sockets_[place->second];
}

const SocketEntry* SocketTable::other_end_of(const SocketEntry& socket) const {
    if (socket.is_local) return socket.other_inode == 0 ? nullptr : find(socket.other_inode);
    const auto place = by_ends_.find(std::pair(socket.remote, socket.local));
    return place == by_ends_.end() ? nullptr : &sockets_[place->second];
}

SocketEnd SocketTable::end_of(const SocketEntry& socket) {
    SocketEnd end = socket.own;
    end.address = !socket.is_local      ? to_string(socket.local)
                  : socket.name.empty() ? ""
                                        : "unix:" + socket.name;
    return end;
}

}  // namespace launch
}  // namespace ddprun
