// Which variables are nobody's to see, by their names. Pure.
#pragma once

#include <string_view>

namespace ddprun::inline launch {

// In it is SECRET, TOKEN, PASSWORD, KEY or the like, in letters of either case.
bool is_secret_name(std::string_view name);

}  // namespace ddprun::inline launch
