// How the launcher's own lines are told from its workers'.
#pragma once

#include <string_view>

namespace ddprun::inline launch {

// Before each of them.
inline constexpr std::string_view kLauncherMark = "ddprun: ";

}  // namespace ddprun::inline launch
