// Base64 (RFC 4648, with padding), in which etcd's JSON has keys and values. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::inline job {

std::string to_base64(std::string_view bytes);

// Nothing for a text that to_base64 does not write.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace ddprun::inline job
