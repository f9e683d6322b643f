#include "launcher/process/descriptors.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

bool is_readable(const OwnedDescriptor& descriptor, int timeout_ms) {
    pollfd ready{descriptor.get(), POLLIN, 0};
    return ::poll(&ready, 1, timeout_ms) == 1;
}

}  // namespace

// Where the kernel lacks pidfds: tests/end_to_end/security/old_kernel_test.py.
TEST_CASE("a child's end makes its descriptor readable, before and after somebody has reaped it") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        while (true) ::pause();
    }
    const OwnedDescriptor end = open_end_of_child(child);
    const OwnedDescriptor other = open_end_of_child(child);
    REQUIRE(end);
    REQUIRE(other);
    CHECK((::fcntl(end.get(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK_FALSE(is_readable(end, 0));
    ::kill(child, SIGKILL);
    CHECK(is_readable(end, -1));
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WTERMSIG(status) == SIGKILL);
    CHECK(is_readable(other, -1));
    const OwnedDescriptor gone = open_end_of_child(child);
    CHECK_FALSE(gone);
    CHECK(errno == ESRCH);
}

}  // namespace ddprun
