// What is said when workers take long to end: at half the grace period which have not ended, at its end which
// are killed. Pure.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace ddprun {

struct GraceNotice {
    std::vector<int> ranks;     // that have not ended; if there are none, …
    std::vector<int> leftover;  // … those that have, but left processes behind
    int signal = 0;             // the last one by which the workers were asked to end
    std::chrono::milliseconds grace_period{0};
    bool is_over = false;  // else half of it has passed
};

// "ranks 0,3 have not ended 15 s after SIGTERM; SIGKILL in 15 s (--grace 30)".
std::string to_text(const GraceNotice& notice);

}  // namespace ddprun
