#include "rendezvous/codec/json_codec.hpp"

namespace ddprun {
inline namespace base {

std::optional<boost::json::object> parse_json_object(std::string_view text, std::size_t max_depth,
                                                     bool any_bytes) {
    boost::json::parse_options options;
    options.max_depth = max_depth;
    options.allow_invalid_utf8 = any_bytes;
    boost::json::error_code trouble;
    boost::json::value root = boost::json::parse({text.data(), text.size()}, trouble, {}, options);
    if (trouble || !root.is_object()) return std::nullopt;
    return std::move(root.get_object());
}

std::string cut_text(const std::string& text, std::size_t limit) {
    if (text.size() <= limit) return text;
    std::size_t end = limit;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return text.substr(0, end);
}

}  // namespace base
}  // namespace ddprun
