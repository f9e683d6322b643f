// ViewRules: what a launcher says and hears as JSON at its socket and among nodes; texts are made valid
// UTF-8. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/json_codec.hpp"

namespace ddprun {
inline namespace launch {

struct ViewRules : JsonRules {
    static constexpr std::size_t kMaxDepth = 8;

    static std::string text(const std::string& text, std::size_t) { return valid_utf8(text); }
};

// Returns nothing for a text that is no object of this description.
template <class T>
std::optional<T> view_from_json(std::string_view text) {
    const auto object = parse_json_object(text, ViewRules::kMaxDepth);
    T value;
    if (!object || !from_json<ViewRules>(*object, value)) return std::nullopt;
    return value;
}

}  // namespace launch
}  // namespace ddprun
