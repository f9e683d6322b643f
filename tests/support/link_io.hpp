// A TcpLink driven by hand, a message at a time. The descriptors block nobody longer than the hang guard.
#pragma once

#include <poll.h>
#include <sys/uio.h>

#include <cstddef>

#include "collectives/wire/tcp_link.hpp"
#include "tests/support/await_verdict.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

inline void wait(int fd, short events) {
    pollfd polled{fd, events, 0};
    REQUIRE(::poll(&polled, 1, kGuardMilliseconds) == 1);
}

inline void write_all(TcpLink& link, const void* data, std::size_t size) {
    iovec part{const_cast<void*>(data), size};
    REQUIRE(link.write_some({&part, 1}) == size);
}

}  // namespace ddprun
