#include "launcher/watchdog/timer_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "launcher/harmless_text.hpp"

namespace ddprun::inline launch {
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
    std::map<pid_t, std::vector<std::pair<TimePoint, ExpiredTimer>>> found;
    std::erase_if(timers_, [&](const auto& entry) {
        const auto& [key, timer] = entry;
        if (timer.due > now) return false;
        found[key.first].push_back(
            {timer.due, {key.first, timer.start_time, key.second, timer.signal, timer.length}});
        return true;
    });
    std::vector<ExpiredTimer> expired;
    for (auto& [pid, timers] : found) {
        std::stable_sort(timers.begin(), timers.end(),
                         [](const auto& one, const auto& other) { return one.first < other.first; });
        for (auto& [due, timer] : timers) {
            expired.push_back(std::move(timer));
            if (expired.back().signal <= 0) continue;
            std::erase_if(timers_,
                          [&](const auto& entry) { return entry.first.first == expired.back().pid; });
            break;
        }
    }
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

}  // namespace ddprun::inline launch
