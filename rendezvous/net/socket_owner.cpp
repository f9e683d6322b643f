#include "rendezvous/net/socket_owner.hpp"

#include <fmt/core.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "rendezvous/base/check.hpp"
#include "rendezvous/system/own_process.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace base {
namespace {

constexpr std::string_view kListenState = "0A";  // TCP_LISTEN in /proc/net/tcp
constexpr unsigned char kDelete = 0x7f;          // from here on no byte is printable ASCII

std::string read_text(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> words(const std::string& line) {
    std::istringstream stream(line);
    return {std::istream_iterator<std::string>(stream), {}};
}

std::string command_line(const std::filesystem::path& process) {
    std::string text = read_text(process / "cmdline");
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return shown_command(text);
}

bool holds_socket(const std::filesystem::path& process, const std::vector<std::uint64_t>& inodes) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(process / "fd", error), end; !error && entry != end;
         entry.increment(error)) {
        std::error_code link_error;
        std::string target = std::filesystem::read_symlink(entry->path(), link_error).string();
        for (std::uint64_t inode : inodes) {
            if (target == fmt::format("socket:[{}]", inode)) return true;
        }
    }
    return false;
}

}  // namespace

std::vector<std::uint64_t> listening_inodes(std::string_view proc_net_tcp, std::uint16_t port) {
    // The columns are: sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode …
    constexpr std::size_t kLocalAddress = 1, kState = 3, kInode = 9;
    std::vector<std::uint64_t> inodes;
    std::istringstream lines{std::string(proc_net_tcp)};
    for (std::string line; std::getline(lines, line);) {
        auto columns = words(line);
        if (columns.size() <= kInode || columns[kState] != kListenState) continue;
        const std::string& local = columns[kLocalAddress];
        auto colon = local.rfind(':');
        if (colon == std::string::npos) continue;
        const auto local_port =
            whole_number<unsigned>(std::string_view(local).substr(colon + 1), 0, 65535, 16);
        const auto inode = whole_number<std::uint64_t>(columns[kInode], 1);
        if (local_port == port && inode) inodes.push_back(*inode);
    }
    return inodes;
}

std::string shown_command(std::string_view arguments) {
    std::string text(arguments.substr(0, kMaxCommandText));
    for (char& c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < ' ') c = ' ';
        if (byte >= kDelete) c = '?';
    }
    return arguments.size() > kMaxCommandText ? text + "…" : text;
}

std::optional<PortOwner> find_port_owner(std::uint16_t port) {
    auto inodes = listening_inodes(read_text("/proc/net/tcp"), port);
    auto inodes6 = listening_inodes(read_text("/proc/net/tcp6"), port);
    inodes.insert(inodes.end(), inodes6.begin(), inodes6.end());
    if (inodes.empty()) return std::nullopt;

    std::error_code error;
    for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
         entry.increment(error)) {
        const auto pid = whole_number<pid_t>(entry->path().filename().string(), 1);
        if (pid && holds_socket(entry->path(), inodes)) return PortOwner{*pid, command_line(entry->path())};
    }
    return std::nullopt;
}

namespace {

using boost::asio::ip::address;
using boost::asio::ip::tcp;

constexpr std::size_t kAnswerBytes = 4096;

struct Question {
    nlmsghdr header;
    inet_diag_req_v2 request;
};

// Both families share one table: an IPv4 connection that came to an IPv6 socket is asked for as what it is.
address plain(const address& from) {
    const bool is_mapped = from.is_v6() && from.to_v6().is_v4_mapped();
    return is_mapped ? address(boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, from.to_v6()))
                     : from;
}

void put_address(const address& from, __be32 (&words)[4]) {
    const auto put = [&words](const auto& bytes) { std::memcpy(words, bytes.data(), bytes.size()); };
    from.is_v4() ? put(from.to_v4().to_bytes()) : put(from.to_v6().to_bytes());
}

// The kernel finds the socket by its addresses alone.
Question question_about(const tcp::endpoint& own, const tcp::endpoint& peer) {
    const address there = plain(own.address());
    Question question{};
    question.header.nlmsg_len = sizeof question;
    question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    question.header.nlmsg_flags = NLM_F_REQUEST;
    inet_diag_req_v2& request = question.request;
    request.sdiag_family = there.is_v4() ? AF_INET : AF_INET6;
    request.sdiag_protocol = IPPROTO_TCP;
    request.idiag_states = ~0U;
    request.id.idiag_sport = htons(own.port());
    request.id.idiag_dport = htons(peer.port());
    put_address(there, request.id.idiag_src);
    put_address(plain(peer.address()), request.id.idiag_dst);
    if (there.is_v6()) request.id.idiag_if = static_cast<std::uint32_t>(there.to_v6().scope_id());
    std::fill(std::begin(request.id.idiag_cookie), std::end(request.id.idiag_cookie), INET_DIAG_NOCOOKIE);
    return question;
}

SocketAnswer answer_in(const nlmsghdr& header) {
    if (header.nlmsg_type == NLMSG_ERROR) {
        nlmsgerr error{};
        std::memcpy(&error, reinterpret_cast<const char*>(&header) + NLMSG_HDRLEN, sizeof error);
        return {error.error == -ENOENT ? SocketAnswer::Kind::absent : SocketAnswer::Kind::nothing};
    }
    inet_diag_msg message{};
    std::memcpy(&message, reinterpret_cast<const char*>(&header) + NLMSG_HDRLEN, sizeof message);
    // A socket that its process has closed has no file any more; its user is not known then, and the kernel
    // says root.
    if (message.idiag_inode == 0) return {SocketAnswer::Kind::unattached};
    return {SocketAnswer::Kind::held, message.idiag_uid};
}

class Kernel {
  public:
    SocketAnswer ask(const tcp::endpoint& own, const tcp::endpoint& peer) {
        if (!netlink_)
            netlink_ = ProcessDescriptor([] {
                return ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
            });
        Question question = question_about(own, peer);
        question.header.nlmsg_seq = ++asked_;
        alignas(nlmsghdr) std::array<char, kAnswerBytes> answer{};
        if (!netlink_ || ::send(netlink_.get(), &question, sizeof question, 0) < 0) return {};
        // The kernel has answered when send() is back.
        const ssize_t size = ::recv(netlink_.get(), answer.data(), answer.size(), 0);
        const auto& header = *reinterpret_cast<const nlmsghdr*>(answer.data());
        constexpr std::size_t kLeast = NLMSG_HDRLEN + std::min(sizeof(nlmsgerr), sizeof(inet_diag_msg));
        if (size < static_cast<ssize_t>(kLeast) || header.nlmsg_seq != asked_) return {};
        return answer_in(header);
    }

  private:
    ProcessDescriptor netlink_;  // ranks ask, too, and may fork meanwhile
    std::uint32_t asked_ = 0;
};

}  // namespace

SocketQuestion ask_kernel() {
    return [kernel = std::make_shared<Kernel>()](const tcp::endpoint& own, const tcp::endpoint& peer) {
        return kernel->ask(own, peer);
    };
}

// Not asked about the connection in question: whoever made that can end it, and then no kernel knows it.
bool ConnectionOwners::knows_sockets(const tcp& family) {
    if (knows_sockets_) return *knows_sockets_;
    boost::asio::io_context context;
    tcp::acceptor own(context);
    boost::system::error_code error;
    const bool is_v4 = family == tcp::v4();
    const address loopback = is_v4 ? address(boost::asio::ip::address_v4::loopback())
                                   : address(boost::asio::ip::address_v6::loopback());
    own.open(family, error);
    if (!error) own.bind({loopback, 0}, error);
    if (!error) own.listen(1, error);
    const tcp::endpoint end = error ? tcp::endpoint() : own.local_endpoint(error);
    // Without one, it is another question's to find out; until then nobody is let in by mistake.
    if (error) return true;
    knows_sockets_ = ask_(end, tcp::endpoint(family, 0)).kind != SocketAnswer::Kind::absent;
    return *knows_sockets_;
}

ConnectionOwner ConnectionOwners::of(const tcp::socket& socket) {
    boost::system::error_code gone;
    const tcp::endpoint remote = socket.remote_endpoint(gone);
    if (gone) return {ConnectionOwner::Kind::closed};
    return of(remote, socket.local_endpoint(gone));
}

ConnectionOwner ConnectionOwners::of(const tcp::endpoint& remote, const tcp::endpoint& local) {
    using Kind = ConnectionOwner::Kind;
    const bool is_here = plain(remote.address()).is_loopback() || remote.address() == local.address();
    // The socket at the other end: what is remote here is local there.
    const SocketAnswer answer = ask_(remote, local);
    switch (answer.kind) {
        case SocketAnswer::Kind::held: return {Kind::user, answer.uid};
        case SocketAnswer::Kind::unattached: return {Kind::closed};
        case SocketAnswer::Kind::absent:
            if (!is_here) return {Kind::elsewhere};
            return {knows_sockets(plain(remote.address()).is_v4() ? tcp::v4() : tcp::v6()) ? Kind::closed
                                                                                           : Kind::untold};
        case SocketAnswer::Kind::nothing: return {is_here ? Kind::untold : Kind::elsewhere};
    }
    check(false, "no such answer about a socket");
    return {};
}

}  // namespace base
}  // namespace ddprun
