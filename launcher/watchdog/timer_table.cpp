#include "launcher/watchdog/timer_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "launcher/harmless_text.hpp"

namespace ddprun {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::size_t kMaxScopeShown = 120;

// Never below zero: what was over when it came is over now.
std::chrono::milliseconds length_of(double expires, double unix_s) {
    const double left = std::clamp(expires - unix_s, 0.0, Seconds(kLongestTimer).count());
    return std::chrono::ceil<std::chrono::milliseconds>(Seconds(left));
}

}  // namespace

bool TimerTable::set(const TimerRequest& request, std::uint64_t start_time, TimePoint now, double unix_s) {
    const auto length = length_of(request.expires, unix_s);
    const Timer timer{start_time, now + length, request.signal, length};
    const std::pair key{request.pid, request.scope};
    if (const auto known = timers_.find(key); known != timers_.end()) {
        known->second = timer;
        return true;
    }
    if (timers_.size() >= kMaxTimers) return false;
    timers_.emplace(key, timer);
    return true;
}

std::optional<TimerTable::TimePoint> TimerTable::next() const {
    std::optional<TimePoint> first;
    for (const auto& [key, timer] : timers_) first = std::min(first.value_or(timer.due), timer.due);
    return first;
}

std::vector<ExpiredTimer> TimerTable::take_expired(TimePoint now) {
    // By process; of each the earliest that sends something.
    std::map<pid_t, std::pair<TimePoint, ExpiredTimer>> found;
    for (auto entry = timers_.begin(); entry != timers_.end();) {
        const auto& [key, timer] = *entry;
        const auto before = found.find(key.first);
        const bool is_over = timer.due <= now;
        if (is_over && timer.signal > 0 && (before == found.end() || timer.due < before->second.first))
            found[key.first] = {timer.due,
                                {key.first, timer.start_time, key.second, timer.signal, timer.length}};
        entry = is_over ? timers_.erase(entry) : std::next(entry);
    }
    std::erase_if(timers_, [&](const auto& entry) { return found.contains(entry.first.first); });
    std::vector<ExpiredTimer> expired;
    for (auto& [pid, first] : found) expired.push_back(std::move(first.second));
    return expired;
}

void TimerTable::forget(const std::function<bool(pid_t, std::uint64_t)>& is_gone) {
    std::erase_if(timers_,
                  [&](const auto& entry) { return is_gone(entry.first.first, entry.second.start_time); });
}

void TimerTable::shift(std::chrono::steady_clock::duration time) {
    for (auto& [key, timer] : timers_) timer.due += time;
}

std::string to_text(const ExpiredTimer& timer) {
    // The client's own time until its line was read is part of no timer.
    const double hundredths = std::round(Seconds(timer.length).count() * 100);
    return fmt::format("'{}' of {:g} s", harmless_line(timer.scope, kMaxScopeShown), hundredths / 100);
}

}  // namespace ddprun
