// What sockets alone can do between two processes of one machine: each sends the other as many bytes at once as an
// all-reduce does, over one connection for each direction, and does nothing with them.
//
//   raw_sockets SETTINGS ITERATIONS BYTES...   prints "BYTES MICROSECONDS" for each size: the median
// SETTINGS: `plain`, the system's; `tuned`, those that ddprun gives connections within a machine.
//
// It forks its peer. As ddprun does, it moves 256 KiB at a time and looks for 50 us before it sleeps.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "timing.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMove = std::size_t{256} << 10;
constexpr std::chrono::microseconds kSpin{50};

void require(bool condition, const char* what) {
    if (condition) return;
    std::perror(what);
    std::exit(1);
}

void set_options(int fd, bool tuned) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (!tuned) return;
    const int buffer = 1 << 20;
    ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
}

struct Connection {
    int dialled;
    int accepted;
};

Connection connect_over_loopback(bool tuned) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    require(::bind(listener, raw, length) == 0 && ::listen(listener, 1) == 0, "listen");
    require(::getsockname(listener, raw, &length) == 0, "getsockname");
    Connection connection{::socket(AF_INET, SOCK_STREAM, 0), -1};
    require(::connect(connection.dialled, raw, length) == 0, "connect");
    connection.accepted = ::accept(listener, nullptr, nullptr);
    require(connection.accepted >= 0, "accept");
    ::close(listener);
    set_options(connection.dialled, tuned);
    set_options(connection.accepted, tuned);
    return connection;
}

// Sends `size` bytes and receives as many.
void swap(int out, int in, const char* own, char* theirs, std::size_t size) {
    std::size_t sent = 0;
    std::size_t received = 0;
    auto idle_since = Clock::time_point::max();
    while (sent < size || received < size) {
        ssize_t moved_out = 0;
        ssize_t moved_in = 0;
        if (sent < size) moved_out = ::send(out, own + sent, std::min(size - sent, kMove), MSG_DONTWAIT);
        if (received < size) {
            moved_in = ::recv(in, theirs + received, std::min(size - received, kMove), MSG_DONTWAIT);
            require(moved_in != 0, "the peer has gone");
        }
        sent += static_cast<std::size_t>(std::max<ssize_t>(moved_out, 0));
        received += static_cast<std::size_t>(std::max<ssize_t>(moved_in, 0));
        const auto now = Clock::now();
        if (moved_out > 0 || moved_in > 0) {
            idle_since = Clock::time_point::max();
        } else if (idle_since = std::min(idle_since, now); now - idle_since < kSpin) {
            ::sched_yield();
        } else {
            pollfd polled[2] = {{received < size ? in : -1, POLLIN, 0}, {sent < size ? out : -1, POLLOUT, 0}};
            ::poll(polled, 2, -1);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    const bool tuned = std::string(argv[1]) == "tuned";
    const Connection there = connect_over_loopback(tuned);
    const Connection back = connect_over_loopback(tuned);
    Peer peer;
    const pid_t child = ::fork();
    peer.rank = child == 0 ? 1 : 0;
    const int out = peer.rank == 0 ? there.dialled : back.dialled;
    const int in = peer.rank == 0 ? back.accepted : there.accepted;
    std::vector<char> received;
    const auto exchange = [&](const void* data, std::size_t size) {
        if (received.size() < size) received.resize(size);
        swap(out, in, static_cast<const char*>(data), received.data(), size);
    };
    peer.barrier = [&] { exchange(&peer.rank, 1); };
    peer.all_reduce = [&](float* data, std::size_t count) { exchange(data, count * sizeof(float)); };
    time_sizes(peer, argc - 1, argv + 1);
    if (child > 0) ::waitpid(child, nullptr, 0);
}
