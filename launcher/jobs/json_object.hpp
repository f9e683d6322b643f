// JSON text that another program wrote, as the object it must be. Pure.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string_view>

namespace ddprun {

// The nesting of what correct programs write.
inline constexpr std::size_t kMaxJsonDepth = 8;

// Nothing for what is no JSON, no object, or nested deeper.
std::optional<boost::json::object> parse_json_object(std::string_view text);

}  // namespace ddprun
