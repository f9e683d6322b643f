// WaitSchedule: when a rank that waits in a call does something about it, long before the call's deadline. Pure.
//
// It asks the others whether they are in the same call (QuestionNotice) after half a second, and again after
// pauses that double up to half a minute. Once, if it is wanted, it gives notice of the ranks it waits for:
// first it inquires where they are, then, when there was time to answer, it says so.
//
// Driven by PeerMesh.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rendezvous/system/deadline.hpp"

namespace ddprun::inline detail {

inline constexpr std::chrono::milliseconds kFirstQuestion{500};
inline constexpr std::chrono::milliseconds kLongestPause{30'000};
// How long the others have to say where they are.
inline constexpr std::chrono::milliseconds kAnswerTimeout{1000};

class WaitSchedule {
  public:
    using Clock = Deadline::clock;

    WaitSchedule() = default;
    // Of a call that began at `begin`. `notice_after` 0: no notice.
    WaitSchedule(Deadline begin, std::chrono::milliseconds notice_after)
        : question_(begin + kFirstQuestion),
          inquiry_(notice_after.count() > 0 ? begin + notice_after : kNever) {}

    // When there is something to do next.
    Deadline next() const noexcept { return std::min({question_, inquiry_, notice_}); }

    // What is due at `now`; each is told of once.
    bool takes_question(Deadline now) noexcept {
        if (now < question_) return false;
        ++round_;
        question_ = now + pause_;
        pause_ = std::min(2 * pause_, kLongestPause);
        return true;
    }
    bool takes_inquiry(Deadline now) noexcept {
        if (now < inquiry_) return false;
        inquiry_ = kNever;
        notice_ = now + kAnswerTimeout;
        return true;
    }
    bool takes_notice(Deadline now) noexcept {
        if (now < notice_) return false;
        notice_ = kNever;
        return true;
    }
    // The number of the last question, from 1.
    std::uint32_t round() const noexcept { return round_; }

  private:
    static constexpr Deadline kNever = Deadline::max();

    Deadline question_ = kNever;
    Deadline inquiry_ = kNever;
    Deadline notice_ = kNever;
    std::chrono::milliseconds pause_ = kFirstQuestion;
    std::uint32_t round_ = 0;
};

}  // namespace ddprun::inline detail
