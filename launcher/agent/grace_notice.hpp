// What is said while workers end: at once that they are asked to, at half the grace period which have not ended, at its
// end which are killed. Pure.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace ddprun::inline launch {

// A signal was sent to the launcher.
struct StopNotice {
    int ranks = 0;            // that end, …
    bool is_of_node = false;  // … which are those of this node
    int signal = 0;           // by which they are asked to; 0: something else has ended them
    std::chrono::milliseconds grace_period{0};
    bool is_interrupt = false;         // so that another one is impatience, …
    bool is_impatience_local = false;  // … which concerns this node alone
};

// "stopping 4 ranks by SIGINT, up to 30 s (--grace); Ctrl-C again in a second or later ends it now".
std::string to_text(const StopNotice& notice);

struct GraceNotice {
    std::vector<int> ranks;     // that have not ended; if there are none, …
    std::vector<int> leftover;  // … those that have, but left processes behind
    int signal = 0;             // the last one by which the workers were asked to end
    std::chrono::milliseconds grace_period{0};
    bool is_over = false;  // else half of it has passed
};

// "ranks 0,3 have not ended 15 s after SIGTERM; SIGKILL in 15 s (--grace 30)".
std::string to_text(const GraceNotice& notice);

}  // namespace ddprun::inline launch
