#include "collectives/liveness/patience.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

Patience::Patience(Clock::time_point begin, std::chrono::milliseconds notice_after)
    : question_(begin + kFirstQuestion), inquiry_(notice_after.count() > 0 ? begin + notice_after : kNever) {}

Patience::Clock::time_point Patience::next() const noexcept {
    return std::min({question_, inquiry_, notice_});
}

bool Patience::takes_question(Clock::time_point now) noexcept {
    if (now < question_) return false;
    ++round_;
    question_ = now + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
    return true;
}

bool Patience::takes_inquiry(Clock::time_point now) noexcept {
    if (now < inquiry_) return false;
    inquiry_ = kNever;
    notice_ = now + kAnswerTime;
    return true;
}

bool Patience::takes_notice(Clock::time_point now) noexcept {
    if (now < notice_) return false;
    notice_ = kNever;
    return true;
}

}  // namespace ddprun
