#include "rendezvous/link/host_claim.hpp"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "rendezvous/job/digest.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline job {

bool HostClaim::take(const std::string& run_id) {
    OwnedDescriptor holder(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!holder) fail_errno(errno, "cannot claim to host the rendezvous");
    // A name that begins with a zero byte is in no file system. An id may be longer than such a name.
    Digest id;
    id.add(run_id);
    const std::string name = fmt::format("ddprun-host-{:016x}", id.value());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (::bind(holder.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
        if (errno == EADDRINUSE) return false;
        fail_errno(errno, "cannot claim to host the rendezvous");
    }
    holder_ = std::move(holder);
    return true;
}

}  // namespace ddprun::inline job
