// JoinStatus: what an agent says while it joins, and when. Pure.
//
// Fed with each failed attempt and each word of the coordinator; returns the line to print, or an empty one.
// Silent during the first moments of a start, then each time the state of things changes.
#pragma once

#include <chrono>
#include <string>

#include "rendezvous/control_message.hpp"

namespace ddprun {

class JoinStatus {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    JoinStatus(TimePoint start, std::chrono::milliseconds first_delay) : speaks_from_(start + first_delay) {}

    // An attempt to reach the coordinator failed with this cause.
    std::string trouble(const std::string& cause, TimePoint now);

    // The coordinator says who is there (it has waited before it said so).
    std::string waiting(const Waiting& status);

  private:
    TimePoint speaks_from_;
    std::string last_line_;
};

}  // namespace ddprun
