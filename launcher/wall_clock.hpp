// wall_clock_text() and the functions here give wall-clock times as people and files read them. The times are
// never compared: deadlines are steady clocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun {
inline namespace launch {

// Returns milliseconds since 1970, as Failure::unix_time_ms has them.
std::int64_t unix_time_now_ms();

// Returns how far this machine's time zone is ahead of UTC at that time; reads TZ and the zone's file.
std::chrono::seconds local_utc_offset(std::int64_t unix_time_ms);

// Returns "2024-05-01 12:34:56.789 +0200". Pure.
std::string wall_clock_text(std::int64_t unix_time_ms, std::chrono::seconds utc_offset);

// Returns "2024-05-01T10:34:56.789Z" (ISO 8601, UTC). Pure.
std::string utc_text(std::int64_t unix_time_ms);

// Returns "20240501-103456" (UTC), fit for names of files. Pure.
std::string time_stamp(std::int64_t unix_time_s);

}  // namespace launch
}  // namespace ddprun
