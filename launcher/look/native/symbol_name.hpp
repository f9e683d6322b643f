// function_name() makes a symbol of a program or library fit for people. Pure.
#pragma once

#include <string>

namespace ddprun {
inline namespace launch {

// Returns the function as people call it: demangled, and without its arguments.
std::string function_name(const std::string& symbol);

}  // namespace launch
}  // namespace ddprun
