// Waiting for the verdict of a Lifeline.
#pragma once

#include <poll.h>

#include "collectives/liveness/lifeline.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

// How long whoever waits for something that must come waits before the test fails.
inline constexpr int kGuardMilliseconds = 20'000;

inline Verdict await_verdict(Lifeline& lifeline) {
    while (!lifeline.verdict()) {
        pollfd polled{lifeline.news_descriptor(), POLLIN, 0};
        REQUIRE(::poll(&polled, 1, kGuardMilliseconds) == 1);
        lifeline.take_news();
    }
    return *lifeline.verdict();
}

}  // namespace ddprun
