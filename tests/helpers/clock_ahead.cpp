// A library to be preloaded: the wall clock of the program is CLOCK_AHEAD_SECONDS ahead, nothing else
// changes. A node whose clock is wrong, without touching the machine's.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
    const long result = ::syscall(SYS_clock_gettime, clock, time);
    const char* ahead = std::getenv("CLOCK_AHEAD_SECONDS");
    if (result == 0 && clock == CLOCK_REALTIME && ahead != nullptr) time->tv_sec += std::atol(ahead);
    return static_cast<int>(result);
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    *time = {now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

extern "C" time_t time(time_t* result) noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    if (result != nullptr) *result = now.tv_sec;
    return now.tv_sec;
}
