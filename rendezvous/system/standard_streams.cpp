#include "rendezvous/system/standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace ddprun::inline base {

void open_missing_streams() noexcept {
    // A file gets the lowest number that is free.
    for (int fd = 0; fd >= 0 && fd <= STDERR_FILENO;) {
        fd = ::open("/dev/null", O_RDWR);
        if (fd > STDERR_FILENO) ::close(fd);
    }
}

}  // namespace ddprun::inline base
