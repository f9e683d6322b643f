// The address of `control` in a job's folder. It goes through a descriptor of the folder, because a path may
// be longer than a unix socket's address has room for.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {

// The address is good as long as this lives.
class JobControlAddress {
  public:
    // Throws Error if the folder cannot be opened.
    explicit JobControlAddress(const std::filesystem::path& folder);

    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
    static socklen_t size() { return sizeof(sockaddr_un); }

  private:
    OwnedDescriptor folder_;
    sockaddr_un address_{};
};

// A new unix stream socket, close-on-exec. Throws Error.
OwnedDescriptor make_control_socket();

}  // namespace ddprun
