// A machine's own steady clock, as simulations have it: it began at some time, goes a little too fast or too
// slowly, and may jump ahead. A machine that stood still needs none of that: then the world goes on without
// it.
#pragma once

#include <chrono>
#include <random>

#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

class SimulatedClock {
  public:
    // Of a thousand; real quartz is wrong by less than a tenth of one.
    static constexpr int kMaxDrift = 5;

    explicit SimulatedClock(std::mt19937& random)
        : drift_(std::uniform_int_distribution<int>(-kMaxDrift, kMaxDrift)(random)),
          ahead_(std::chrono::milliseconds(std::uniform_int_distribution<int>(0, 1'000'000)(random))) {}

    void jump(std::chrono::milliseconds ahead) { ahead_ += ahead; }

    // What it shows at that time of the world.
    TimePoint at(TimePoint world) const { return world + world.time_since_epoch() * drift_ / 1000 + ahead_; }

  private:
    int drift_;
    TimePoint::duration ahead_;
};

}  // namespace ddprun
