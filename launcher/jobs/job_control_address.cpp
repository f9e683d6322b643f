#include "launcher/jobs/job_control_address.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>

#include "rendezvous/system/error.hpp"

namespace ddprun {

JobControlAddress::JobControlAddress(const std::filesystem::path& folder)
    : folder_(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    if (!folder_) fail_errno(errno, "cannot open '" + folder.string() + "'");
    address_.sun_family = AF_UNIX;
    std::snprintf(address_.sun_path, sizeof address_.sun_path, "/proc/self/fd/%d/control", folder_.get());
}

OwnedDescriptor make_control_socket() {
    OwnedDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) fail_errno(errno, "cannot make a unix socket");
    return socket;
}

}  // namespace ddprun
