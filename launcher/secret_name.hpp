// Tells by the names of variables which are nobody's to see. Pure.
#pragma once

#include <string_view>

namespace ddprun::inline launch {

// True if the name has in it SECRET, TOKEN, PASSWORD, KEY or the like, in letters of either case.
bool is_secret_name(std::string_view name);

}  // namespace ddprun::inline launch
