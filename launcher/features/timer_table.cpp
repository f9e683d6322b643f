#include "launcher/features/timer_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/job/number_limits.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::size_t kMaxTimerDepth = 4;
constexpr std::size_t kTimerBeginningShown = 80;

std::string wrong_line(const std::string& why, std::string_view line) {
    return fmt::format("{}; it begins with: {}", why, harmless_line(line, kTimerBeginningShown));
}

std::optional<double> seconds_in(const boost::json::object& request) {
    const boost::json::value* member = request.if_contains("expiration_time");
    if (member == nullptr || !member->is_number()) return std::nullopt;
    return member->to_number<double>();
}

using Seconds = std::chrono::duration<double>;

constexpr std::size_t kMaxScopeShown = 120;

// Never below zero: what was over when it came is over now.
std::chrono::milliseconds length_of(double expires, double unix_s) {
    const double left = std::clamp(expires - unix_s, 0.0, Seconds(kLongestTimer).count());
    return std::chrono::ceil<std::chrono::milliseconds>(Seconds(left));
}

const ProcessStat* process_of(pid_t pid, const std::vector<ProcessStat>& processes) {
    const auto found = std::find_if(processes.begin(), processes.end(),
                                    [pid](const ProcessStat& process) { return process.pid == pid; });
    return found == processes.end() ? nullptr : &*found;
}

}  // namespace

std::variant<TimerRequest, std::string> parse_timer_request(std::string_view line) {
    if (line.size() > kMaxTimerLine)
        return wrong_line(fmt::format("it is longer than {} bytes", kMaxTimerLine), line);
    const auto object = parse_json_object(line, kMaxTimerDepth, true);
    if (!object) return wrong_line("it is no JSON object", line);
    int version = 0;
    if (!take_member<JsonRules>(*object, "version", version) || version != kTimerVersion)
        return wrong_line(fmt::format("its version is not {}", kTimerVersion), line);
    TimerRequest request;
    if (!take_member<JsonRules>(*object, "pid", request.pid) || request.pid <= 0)
        return wrong_line("its pid is no process's", line);
    if (!take_member<JsonRules>(*object, "scope_id", request.scope))
        return wrong_line("its scope_id is no text", line);
    const auto expires = seconds_in(*object);
    if (!expires) return wrong_line("its expiration_time is no number", line);
    request.expires = *expires;
    if (!take_member<JsonRules>(*object, "signal", request.signal) || request.signal > kMaxSignal)
        return wrong_line("its signal is none", line);
    return request;
}

void TimerLines::push(std::string_view bytes, const std::function<void(std::string_view)>& take) {
    while (!bytes.empty()) {
        const std::size_t end = bytes.find('\n');
        const std::string_view piece = bytes.substr(0, end);
        bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
        if (!passes_over_) {
            // One byte more than is allowed tells that it is too long.
            begun_.append(piece.substr(0, kMaxTimerLine + 1 - begun_.size()));
            passes_over_ = begun_.size() > kMaxTimerLine;
            if (passes_over_) take(begun_);
        }
        if (end == std::string_view::npos) return;
        if (!passes_over_) take(begun_);
        passes_over_ = false;
        begun_.clear();
    }
}

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

std::optional<pid_t> owner_of(pid_t pid, const std::vector<pid_t>& workers,
                              const std::vector<ProcessStat>& processes) {
    const auto is_worker = [&workers](pid_t one) {
        return std::find(workers.begin(), workers.end(), one) != workers.end();
    };
    const ProcessStat* named = process_of(pid, processes);
    if (named == nullptr) return std::nullopt;
    // A table that was read while numbers were given anew may hold a circle.
    std::size_t steps = 0;
    for (const ProcessStat* process = named; process != nullptr && steps <= processes.size(); ++steps) {
        if (is_worker(process->pid)) return process->pid;
        process = process_of(process->parent, processes);
    }
    return is_worker(named->process_group) ? std::optional(named->process_group) : std::nullopt;
}

}  // namespace ddprun::inline launch
