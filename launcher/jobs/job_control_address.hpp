// The address of `control` in a job's folder. It goes through a descriptor of the folder, because a path may
// be longer than a unix socket's address has room for.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <filesystem>

#include "rendezvous/system/error.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

// The address is good as long as this lives.
class JobControlAddress {
  public:
    // Throws Error if the folder cannot be opened.
    explicit JobControlAddress(const std::filesystem::path& folder)
        : folder_(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
        if (!folder_) fail_errno(errno, "cannot open '" + folder.string() + "'");
        address_.sun_family = AF_UNIX;
        ("/proc/self/fd/" + std::to_string(folder_.get()) + "/control").copy(address_.sun_path, kMaxPath);
    }

    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
    static socklen_t size() { return sizeof(sockaddr_un); }

  private:
    static constexpr std::size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;

    OwnedDescriptor folder_;
    sockaddr_un address_{};
};

// A new unix stream socket, close-on-exec. Throws Error.
inline OwnedDescriptor make_control_socket() {
    OwnedDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) fail_errno(errno, "cannot make a unix socket");
    return socket;
}

}  // namespace ddprun::inline launch
