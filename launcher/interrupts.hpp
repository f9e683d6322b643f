// Interrupts say what a SIGINT is to a job that it ends. Programs that pass a Ctrl-C on (uv, npm, make, docker) send it to
// processes which the terminal has sent it already, so two that come close together are one; a later one is the user's
// impatience. Pure. Agents feed it, and so does the starter of many agents, which each get what it passes on.
#pragma once

#include <chrono>
#include <optional>

namespace ddprun::inline launch {

enum class Interrupt { first, repeated, impatient };

class Interrupts {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // The time runs from the first one on, not from the last: a user who presses the keys again and again is heard.
    static constexpr std::chrono::milliseconds kSameInterrupt{1000};

    Interrupt take(TimePoint now) {
        if (first_) return now - *first_ < kSameInterrupt ? Interrupt::repeated : Interrupt::impatient;
        first_ = now;
        return Interrupt::first;
    }

    // All is done that follows from the first one. It may take long where many workers are told, and what has come meanwhile
    // is taken only now.
    void first_answered(TimePoint now) { first_ = now; }

  private:
    std::optional<TimePoint> first_;
};

}  // namespace ddprun::inline launch
