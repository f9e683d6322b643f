// Patience: when a rank that waits in a call does something about it, long before the call's deadline. Pure.
//
// It asks the others whether they are in the same call (QuestionNotice) after half a second, and again after
// pauses that double up to half a minute. Once, if it is wanted, it gives notice of the ranks it waits for:
// first it inquires where they are, then, when there was time to answer, it says so.
//
// Driven by PeerMesh.
#pragma once

#include <chrono>
#include <cstdint>

namespace ddprun {

inline constexpr std::chrono::milliseconds kFirstQuestion{500};
inline constexpr std::chrono::milliseconds kLongestPause{30'000};
// How long the others have to say where they are.
inline constexpr std::chrono::milliseconds kAnswerTime{1000};

class Patience {
  public:
    using Clock = std::chrono::steady_clock;

    Patience() = default;
    // Of a call that began at `begin`. `notice_after` 0: no notice.
    Patience(Clock::time_point begin, std::chrono::milliseconds notice_after);

    // When there is something to do next.
    Clock::time_point next() const noexcept;

    // What is due at `now`; each is told of once.
    bool takes_question(Clock::time_point now) noexcept;
    bool takes_inquiry(Clock::time_point now) noexcept;
    bool takes_notice(Clock::time_point now) noexcept;
    // The number of the last question, from 1.
    std::uint32_t round() const noexcept { return round_; }

  private:
    static constexpr Clock::time_point kNever = Clock::time_point::max();

    Clock::time_point question_ = kNever;
    Clock::time_point inquiry_ = kNever;
    Clock::time_point notice_ = kNever;
    std::chrono::milliseconds pause_ = kFirstQuestion;
    std::uint32_t round_ = 0;
};

}  // namespace ddprun
