#include "launcher/jobs/json_object.hpp"

#include <utility>

namespace ddprun {

std::optional<boost::json::object> parse_json_object(std::string_view text) {
    boost::json::parse_options options;
    options.max_depth = kMaxJsonDepth;
    boost::json::error_code trouble;
    boost::json::value root = boost::json::parse(text, trouble, {}, options);
    if (trouble || !root.is_object()) return std::nullopt;
    return std::move(root.get_object());
}

}  // namespace ddprun
