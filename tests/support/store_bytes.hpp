// Values of one byte, as the store's tests use them.
#pragma once

#include <string>

namespace ddprun {

inline const std::string kZero(1, '\0');
inline const std::string kOne(1, '\1');

}  // namespace ddprun
