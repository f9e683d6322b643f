// Frame is one call of a stack, as a person reads it.
#pragma once

#include <string>

#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace launch {

struct Frame {
    std::string function;  // as the program calls it; any bytes
    std::string file;      // Python: the source; native: the program or library. Any bytes
    int line = 0;          // 0: not known
    bool native = false;   // else a function of Python

    bool operator==(const Frame&) const = default;
};
BOOST_DESCRIBE_STRUCT(Frame, (), (function, file, line, native))

// kMaxFrames: of one stack; the innermost ones are kept.
inline constexpr std::size_t kMaxFrames = 100;

}  // namespace launch
}  // namespace ddprun
