// kMaxNodes and the others say which numbers a job can have; what its agents say to each other is held
// against them (range_of in description.hpp). Pure.
#pragma once

#include <csignal>

#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace job {

inline constexpr int kMaxNodes = 100'000;
inline constexpr int kMaxWorkersPerNode = 4096;  // there may be none, too
inline constexpr int kMaxRanks = kMaxNodes * kMaxWorkersPerNode;
inline constexpr int kMaxSignal = 64;
inline constexpr int kMaxExitCode = 255;

// kCountRange holds for counts, rounds and epochs: one more, and the sum of two, still fit an int.
inline constexpr NumberRange kCountRange{0, 1'000'000'000};
inline constexpr NumberRange kNodeRange{0, kMaxNodes};
inline constexpr NumberRange kNodeOrNoneRange{-1, kMaxNodes};
inline constexpr NumberRange kRankRange{0, kMaxRanks - 1};
inline constexpr NumberRange kRankOrNoneRange{-1, kMaxRanks - 1};
inline constexpr NumberRange kExitCodeRange{0, kMaxExitCode};
inline constexpr NumberRange kSignalRange{0, kMaxSignal};  // 0: none
inline constexpr NumberRange kPortRange{0, 65'535};        // 0: none
// kMillisecondRange holds for Unix times, which end with the year 9999 here, and for durations.
inline constexpr NumberRange kMillisecondRange{0, 253'402'300'799'999};
inline constexpr NumberRange kSecondRange{0, kMillisecondRange.most / 1000};

// Says whether agents pass the signal on to workers, or end them by it. Signals that cannot be caught, and
// those that stop or continue a process, are between a user and one process.
constexpr bool may_be_passed_on(int signal) {
    switch (signal) {
        case SIGKILL:
        case SIGSTOP:
        case SIGCONT:
        case SIGTSTP:
        case SIGTTIN:
        case SIGTTOU: return false;
        default: return signal >= 1 && signal <= kMaxSignal;
    }
}

}  // namespace job
}  // namespace ddprun
