// Frame is one call of a stack, as a person reads it.
#pragma once

#include <string>

namespace ddprun {
inline namespace launch {

struct Frame {
    std::string function;  // as the program calls it; any bytes
    std::string file;      // Python: the source; native: the program or library. Any bytes
    int line = 0;          // 0: not known
    bool native = false;   // else a function of Python

    bool operator==(const Frame&) const = default;
};

// kMaxFrames: of one stack; the innermost ones are kept.
inline constexpr std::size_t kMaxFrames = 100;

}  // namespace launch
}  // namespace ddprun
