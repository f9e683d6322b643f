// Lists as people write them: with blanks around their entries. Pure.
#pragma once

#include <string_view>

namespace ddprun {

// The text without the blanks and tabs around it.
std::string_view trimmed(std::string_view text);

}  // namespace ddprun
