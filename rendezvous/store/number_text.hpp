// Numbers as stores keep them: decimal text. Pure; shared by the stores that implement add.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddprun::inline base {

// Reads a number as PyTorch's server does: leading blanks and trailing text are passed over (" 12abc" is 12).
// Nothing if there is no number or it does not fit.
std::optional<std::int64_t> parse_number(std::string_view text);

// The sum, wrapping around as the machine's integers do: a peer must not be able to trip undefined behaviour.
std::int64_t wrapping_sum(std::int64_t a, std::int64_t b);

}  // namespace ddprun::inline base
