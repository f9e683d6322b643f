#include "rendezvous/system/machine.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <string>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

constexpr int kNotPermitted = 77;

// It runs in a process of its own, which has a name of its own for the machine.
int code_of_name(const std::string& name) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0 && ::unshare(CLONE_NEWUTS) != 0) return kNotPermitted;
    if (::sethostname(name.data(), name.size()) != 0) return kNotPermitted;
    return host_name() == name ? 0 : 1;
}

}  // namespace

TEST_CASE("a machine's name may be as long as the system lets it be") {
    for (const std::size_t length : {1, HOST_NAME_MAX - 1, HOST_NAME_MAX}) {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(code_of_name(std::string(length, 'n')));
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        REQUIRE(WIFEXITED(status));
        if (WEXITSTATUS(status) == kNotPermitted) {
            WARN("no namespace of its own for a name: not tried");
            return;
        }
        CHECK(WEXITSTATUS(status) == 0);
    }
}

}  // namespace ddprun
