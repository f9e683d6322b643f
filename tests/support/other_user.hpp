// Another user of this machine. Tests run as root where they can be one.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {

inline constexpr uid_t kOtherUser = 61'234;

inline bool can_be_other_user() { return ::geteuid() == 0; }

// What `act` returns (0..125) when it is called in a process of that user.
template <typename Act>
int as_other_user(Act act) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setresuid(kOtherUser, kOtherUser, kOtherUser) == 0 ? act() : 126);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

}  // namespace ddprun
