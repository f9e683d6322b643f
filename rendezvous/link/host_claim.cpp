#include "rendezvous/link/host_claim.hpp"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>

#include "rendezvous/base/error.hpp"
#include "rendezvous/control/job_command.hpp"

namespace ddprun {
inline namespace job {
namespace {

// Whoever has one of another user's names for a claim has only that.
constexpr int kMostNames = 16;
constexpr int kListenAttempts = 10;
constexpr std::chrono::milliseconds kListenPause{10};

// A name that begins with a zero byte is in no file system. An id may be longer than such a name.
std::pair<sockaddr_un, socklen_t> claim_address(const std::string& run_id, int number) {
    Digest id;
    id.add(run_id);
    const std::string name = fmt::format("ddprun-host-{}-{:016x}-{}", ::geteuid(), id.value(), number);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

OwnedDescriptor claim_socket() {
    OwnedDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) fail_errno(errno, "cannot claim to host the rendezvous");
    return socket;
}

// One of ours listens as soon as it has the name.
std::optional<uid_t> user_who_listens(const sockaddr* name, socklen_t size) {
    for (int attempt = 0; attempt < kListenAttempts; ++attempt) {
        // No event says when a socket begins to listen.
        if (attempt > 0) std::this_thread::sleep_for(kListenPause);
        const OwnedDescriptor caller = claim_socket();
        ucred listener{};
        socklen_t listener_size = sizeof listener;
        if (::connect(caller.get(), name, size) == 0 &&
            ::getsockopt(caller.get(), SOL_SOCKET, SO_PEERCRED, &listener, &listener_size) == 0)
            return listener.uid;
    }
    return std::nullopt;
}

}  // namespace

bool HostClaim::take(const std::string& run_id) {
    std::string squatters;
    for (int number = 0; number < kMostNames; ++number) {
        const auto [address, size] = claim_address(run_id, number);
        const auto* name = reinterpret_cast<const sockaddr*>(&address);
        OwnedDescriptor holder = claim_socket();
        if (::bind(holder.get(), name, size) == 0 && ::listen(holder.get(), SOMAXCONN) == 0) {
            holder_ = std::move(holder);
            return true;
        }
        if (errno != EADDRINUSE) fail_errno(errno, "cannot claim to host the rendezvous");
        const auto user = user_who_listens(name, size);
        if (user == ::geteuid()) return false;
        squatters += user ? fmt::format(" uid {}", *user) : " somebody who does not listen";
    }
    fail(Errc::refused,
         "cannot claim to host the rendezvous, since other users have all names of the claim:" + squatters);
}

}  // namespace job
}  // namespace ddprun
