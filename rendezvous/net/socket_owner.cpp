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
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline base {
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

template <typename Words>
void put_address(const address& from, Words& words) {
    if (from.is_v4()) {
        const auto bytes = from.to_v4().to_bytes();
        std::memcpy(words, bytes.data(), bytes.size());
    } else {
        const auto bytes = from.to_v6().to_bytes();
        std::memcpy(words, bytes.data(), bytes.size());
    }
}

// It asks for the socket at the other end: what is remote here is local there.
Question question_about(const tcp::endpoint& remote, const tcp::endpoint& local) {
    const address there = plain(remote.address());
    Question question{};
    question.header.nlmsg_len = sizeof question;
    question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    question.header.nlmsg_flags = NLM_F_REQUEST;
    inet_diag_req_v2& request = question.request;
    request.sdiag_family = there.is_v4() ? AF_INET : AF_INET6;
    request.sdiag_protocol = IPPROTO_TCP;
    request.idiag_states = ~0U;
    request.id.idiag_sport = htons(remote.port());
    request.id.idiag_dport = htons(local.port());
    put_address(there, request.id.idiag_src);
    put_address(plain(local.address()), request.id.idiag_dst);
    if (there.is_v6()) request.id.idiag_if = static_cast<std::uint32_t>(there.to_v6().scope_id());
    std::fill(std::begin(request.id.idiag_cookie), std::end(request.id.idiag_cookie), INET_DIAG_NOCOOKIE);
    return question;
}

// The kernel finds it by its addresses alone.
ConnectionOwner owner_not_told(bool is_here) {
    return {is_here ? ConnectionOwner::Kind::untold : ConnectionOwner::Kind::elsewhere};
}

ConnectionOwner owner_said_by(const nlmsghdr& header, bool is_here) {
    if (header.nlmsg_type == NLMSG_ERROR) {
        nlmsgerr error{};
        std::memcpy(&error, reinterpret_cast<const char*>(&header) + NLMSG_HDRLEN, sizeof error);
        if (error.error != -ENOENT) return owner_not_told(is_here);
        return {is_here ? ConnectionOwner::Kind::closed : ConnectionOwner::Kind::elsewhere};
    }
    inet_diag_msg message{};
    std::memcpy(&message, reinterpret_cast<const char*>(&header) + NLMSG_HDRLEN, sizeof message);
    // A socket that its process has closed has no file any more; its user is not known then, and the kernel says root.
    if (message.idiag_inode == 0) return {ConnectionOwner::Kind::closed};
    return {ConnectionOwner::Kind::user, message.idiag_uid};
}

}  // namespace

ConnectionOwner ConnectionOwners::of(const tcp::socket& socket) {
    boost::system::error_code gone;
    const tcp::endpoint remote = socket.remote_endpoint(gone);
    if (gone) return {ConnectionOwner::Kind::closed};
    return of(remote, socket.local_endpoint(gone));
}

ConnectionOwner ConnectionOwners::of(const tcp::endpoint& remote, const tcp::endpoint& local) {
    const bool is_here = plain(remote.address()).is_loopback() || remote.address() == local.address();
    if (!netlink_)
        netlink_.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
    Question question = question_about(remote, local);
    question.header.nlmsg_seq = ++asked_;
    alignas(nlmsghdr) std::array<char, kAnswerBytes> answer{};
    if (!netlink_ || ::send(netlink_.get(), &question, sizeof question, 0) < 0)
        return owner_not_told(is_here);
    // The kernel has answered when send() is back.
    const ssize_t size = ::recv(netlink_.get(), answer.data(), answer.size(), 0);
    const auto& header = *reinterpret_cast<const nlmsghdr*>(answer.data());
    constexpr std::size_t kLeast = NLMSG_HDRLEN + std::min(sizeof(nlmsgerr), sizeof(inet_diag_msg));
    if (size < static_cast<ssize_t>(kLeast) || header.nlmsg_seq != asked_) return owner_not_told(is_here);
    return owner_said_by(header, is_here);
}

}  // namespace ddprun::inline base
