#include "rendezvous/net/socket.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace ddprun {
inline namespace base {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// The longest pause before what was lost is sent again; the option (of Linux 6.15 and newer) is not in every
// system's headers.
constexpr int kTcpRtoMaxMs = 44;
constexpr int kLongestRetransmitMs = 1000;

// A silent peer is asked so often before its connection is given up.
constexpr int kProbes = 3;

}  // namespace

void set_no_delay(int fd) {
    int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
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

}  // namespace base
}  // namespace ddprun
