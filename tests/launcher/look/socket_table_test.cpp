#include "launcher/look/waits/socket_table.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>

#include <cstring>
#include <random>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& bytes, const T& value) {
    const auto view = std::as_bytes(std::span(&value, 1));
    bytes.insert(bytes.end(), view.begin(), view.end());
}

template <class Body>
Bytes message(std::uint16_t type, const Body& body, const Bytes& more = {}) {
    Bytes bytes;
    nlmsghdr head{};
    head.nlmsg_type = type;
    head.nlmsg_len = static_cast<std::uint32_t>(sizeof(head) + sizeof(body) + more.size());
    append(bytes, head);
    append(bytes, body);
    bytes.insert(bytes.end(), more.begin(), more.end());
    return bytes;
}

Bytes local_message(std::uint32_t inode, std::uint32_t other) {
    unix_diag_msg body{};
    body.udiag_family = AF_UNIX;
    body.udiag_ino = inode;
    Bytes more;
    append(more, nlattr{8, UNIX_DIAG_PEER});
    append(more, other);
    append(more, nlattr{9, UNIX_DIAG_NAME});
    append(more, std::array<char, 8>{'\0', 'n', 'a', 'm', 'e'});
    more.resize(more.size() - 1);
    more.push_back({});
    return message(SOCK_DIAG_BY_FAMILY, body, more);
}

}  // namespace

TEST_CASE("sockets: an address as people write it") {
    InternetAddress address;
    CHECK(to_string(address).empty());
    address.port = 80;
    CHECK(to_string(address) == "[::]:80");
    address.bytes[15] = 1;
    CHECK(to_string(address) == "[::1]:80");
    address.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7};
    CHECK(to_string(address) == "10.0.0.7:80");
}

TEST_CASE("sockets: each has its other end, whatever order they came in") {
    std::vector<SocketEntry> entries(4);
    entries[0].inode = 1;
    entries[0].local.port = 80;
    entries[0].remote.port = 90;
    entries[1].inode = 2;
    entries[1].local.port = 90;
    entries[1].remote.port = 80;
    entries[2].inode = 3;
    entries[2].local.port = 80;
    entries[2].is_listening = true;
    entries[3].inode = 4;
    entries[3].is_local = true;
    entries[3].other_inode = 1;
    const SocketTable table(entries);
    CHECK(table.find(9) == nullptr);
    CHECK(table.other_end_of(*table.find(1))->inode == 2);
    CHECK(table.other_end_of(*table.find(2))->inode == 1);
    CHECK(table.other_end_of(*table.find(3)) == nullptr);
    CHECK(table.other_end_of(*table.find(4))->inode == 1);
    CHECK(SocketTable::end_of(*table.find(1)).address == "[::]:80");
    CHECK(SocketTable::end_of(*table.find(4)).address.empty());
}

TEST_CASE("sockets: the kernel's messages, whole, cut anywhere, and any bytes") {
    Bytes answer = local_message(5, 6);
    const Bytes second = local_message(6, 5);
    answer.insert(answer.end(), second.begin(), second.end());
    std::vector<SocketEntry> sockets;
    CHECK(parse_sockets(answer, sockets));
    REQUIRE(sockets.size() == 2);
    CHECK(sockets[0].inode == 5);
    CHECK(sockets[0].other_inode == 6);
    CHECK(sockets[0].name.starts_with("@name"));
    CHECK(SocketTable(sockets).other_end_of(sockets[1])->inode == 5);
    CHECK_FALSE(parse_sockets(message(NLMSG_DONE, 0), sockets));
    CHECK_FALSE(parse_sockets(message(NLMSG_ERROR, -2), sockets));

    for (std::size_t size = 0; size < answer.size(); ++size) {
        std::vector<SocketEntry> some;
        parse_sockets(std::span(answer).first(size), some);
        CHECK(some.size() <= 2);
    }
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int repeat = 0; repeat < 20'000; ++repeat) {
        Bytes spoilt = answer;
        for (int i = 0; i < 4; ++i) spoilt[random() % spoilt.size()] = static_cast<std::byte>(random());
        std::vector<SocketEntry> some;
        parse_sockets(spoilt, some);
        CHECK(some.size() <= answer.size());
    }
}

}  // namespace ddprun
