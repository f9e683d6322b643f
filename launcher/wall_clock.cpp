#include "launcher/wall_clock.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

namespace ddprun {
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
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%04d-%02u-%02u%c%02d:%02d:%02d.%03d",
                  static_cast<int>(day.year()), static_cast<unsigned>(day.month()),
                  static_cast<unsigned>(day.day()), between, static_cast<int>(time.hours().count()),
                  static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()),
                  static_cast<int>(time.subseconds().count()));
    return text.data();
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
    std::array<char, 64> zone{};
    std::snprintf(zone.data(), zone.size(), " %c%02lld%02lld", minutes < 0 ? '-' : '+',
                  static_cast<long long>(size / 60), static_cast<long long>(size % 60));
    return date_and_time(unix_time_ms, utc_offset, ' ') + zone.data();
}

std::string utc_text(std::int64_t unix_time_ms) {
    return date_and_time(unix_time_ms, std::chrono::seconds(0), 'T') + "Z";
}

}  // namespace ddprun
