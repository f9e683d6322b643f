// SystemCall says how a system call waits: for what, by which of its arguments, and until when. Pure.
//
// The table has the numbers of both architectures that ddprun runs on; which of them is read is an argument,
// so that a test on one machine reads the other's as well.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "launcher/look/architecture.hpp"

namespace ddprun {
inline namespace launch {

// CallShape: what a system call that waits is about.
enum class CallShape {
    sleep,
    futex,       // the word at the first argument
    lock,        // a lock that does not say which thread holds it
    accept,      // a listening socket: the descriptor in the first argument
    socket,      // a socket: likewise
    descriptor,  // whatever kind of file the descriptor in the first argument is
    path,        // the path at argument `subject`
    flock,       // the descriptor in the first argument
    fcntl,       // likewise; waits for a lock only with some commands
    wait4,       // a child, a group of them or any: the first argument
    waitid,      // likewise, by the first two arguments
    fork,        // the child, until it has called exec or has ended
    poll,        // the descriptors in the array at the first argument, so many as the second says
    select,      // many descriptors
    epoll,       // those that the descriptor in the first argument watches
    queue,       // messages, or requests to the disk
    restarted,   // a call that was interrupted by a stop: which one, the number does not say
};

// LimitShape: how a system call is told until when to wait.
enum class LimitShape {
    none,          // never: waits for good
    always,        // waits for some time only
    pointer,       // the argument is a pointer to a time; 0: for good
    milliseconds,  // the argument is an int; negative: for good
};

struct SystemCall {
    std::string_view name;
    int x86_64 = -1;  // the number there; -1: there is none
    int aarch64 = -1;
    CallShape shape = CallShape::descriptor;
    int subject = 0;  // of a path: which argument
    LimitShape limit = LimitShape::none;
    int limit_argument = 0;

    int number(Architecture architecture) const {
        return architecture == Architecture::x86_64 ? x86_64 : aarch64;
    }
};

// Returns the call of that number; nullptr for a number that is not in the table: calls that seldom wait.
const SystemCall* find_system_call(long number, Architecture architecture = kOwnArchitecture);

// Says whether a call with these arguments ends by itself after some time.
bool is_timed(const SystemCall& call, const std::array<std::uint64_t, 6>& arguments);

}  // namespace launch
}  // namespace ddprun
