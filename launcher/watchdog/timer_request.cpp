#include "launcher/watchdog/timer_request.hpp"

#include <fmt/core.h>

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

}  // namespace ddprun::inline launch
