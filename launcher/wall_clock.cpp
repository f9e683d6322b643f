#include "launcher/wall_clock.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>

namespace ddprun {
inline namespace launch {
namespace {

// Years that the calendar below can name, so that a hostile number is shown as a far day and not as nonsense.
constexpr std::int64_t kEarliestMs = -62'135'596'800'000;  // year 1
constexpr std::int64_t kLatestMs = 253'402'300'799'999;    // year 9999

std::string date_and_time(std::int64_t unix_time_ms, std::chrono::seconds utc_offset, char between) {
    namespace chrono = std::chrono;
    const auto bounded = chrono::milliseconds(std::clamp(unix_time_ms, kEarliestMs, kLatestMs)) + utc_offset;
    const auto days = chrono::floor<chrono::days>(bounded);
    const chrono::year_month_day day{chrono::sys_days(days)};
    const chrono::hh_mm_ss time{bounded - days};
    return fmt::format("{:04}-{:02}-{:02}{}{:02}:{:02}:{:02}.{:03}", static_cast<int>(day.year()),
                       static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()), between,
                       time.hours().count(), time.minutes().count(), time.seconds().count(),
                       time.subseconds().count());
}

}  // namespace

std::int64_t unix_time_now_ms() {
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
}

std::chrono::seconds local_utc_offset(std::int64_t unix_time_ms) {
    const std::time_t time = static_cast<std::time_t>(unix_time_ms / 1000);
    std::tm local{};
    if (::localtime_r(&time, &local) == nullptr) return std::chrono::seconds(0);
    return std::chrono::seconds(local.tm_gmtoff);
}

std::string wall_clock_text(std::int64_t unix_time_ms, std::chrono::seconds utc_offset) {
    const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(utc_offset).count();
    const auto size = minutes < 0 ? -minutes : minutes;
    return fmt::format("{} {}{:02}{:02}", date_and_time(unix_time_ms, utc_offset, ' '),
                       minutes < 0 ? '-' : '+', size / 60, size % 60);
}

std::string utc_text(std::int64_t unix_time_ms) {
    return date_and_time(unix_time_ms, std::chrono::seconds(0), 'T') + "Z";
}

std::string time_stamp(std::int64_t unix_time_s) {
    std::string text = date_and_time(unix_time_s * 1000, std::chrono::seconds(0), '-');
    text.resize(text.find('.'));
    std::erase(text, ':');
    // The date's own; that before the time stays.
    text.erase(text.find('-'), 1);
    text.erase(text.find('-'), 1);
    return text;
}

}  // namespace launch
}  // namespace ddprun
