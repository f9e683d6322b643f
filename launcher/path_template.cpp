#include "launcher/path_template.hpp"

#include <fmt/core.h>

#include "launcher/wall_clock.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// Beyond that a name is refused by common file systems, with something before and behind it.
constexpr std::size_t kMaxPathPart = 200;
constexpr char kNodeRank = 'r';

std::optional<std::string> meaning_of(char sign, const PathFacts& facts) {
    switch (sign) {
        case 't': return time_stamp(facts.start_unix_s);
        case 'j': return as_path_part(facts.run_id);
        case 'h': return as_path_part(facts.host);
        case '%': return "%";
        default: return std::nullopt;
    }
}

// The text with what each sign means in its place; a sign that means nothing stays.
std::string replaced(std::string_view text, const auto& meaning) {
    std::string path;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const std::optional<std::string> found =
            text[at] == '%' && at + 1 < text.size() ? meaning(text[at + 1]) : std::nullopt;
        path += found ? *found : std::string{text[at]};
        if (found) ++at;
    }
    return path;
}

}  // namespace

std::optional<std::string> path_complaint(std::string_view text) {
    for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 2)) {
        if (at + 1 < text.size() && (text[at + 1] == kNodeRank || meaning_of(text[at + 1], {}))) continue;
        return fmt::format(
            "{} is none of %t (when the job was started), %j (its --rdzv-id), %h (the host), %r (the number "
            "of the node) and %% (a % itself)",
            text.substr(at, 2));
    }
    return std::nullopt;
}

std::string filled_path(std::string_view text, const PathFacts& facts) {
    return replaced(text, [&facts](char sign) { return meaning_of(sign, facts); });
}

bool names_node_rank(std::string_view text) { return with_node_rank(text, 0) != text; }

std::string with_node_rank(std::string_view text, int node_rank) {
    return replaced(text, [node_rank](char sign) {
        return std::optional(sign == kNodeRank ? std::to_string(node_rank) : std::string{'%', sign});
    });
}

std::filesystem::path fixed_part(const std::filesystem::path& text) {
    std::filesystem::path fixed;
    for (const std::filesystem::path& part : text) {
        if (part.string().find('%') != std::string::npos) return fixed.empty() ? "." : fixed;
        fixed /= part;
    }
    return fixed;
}

std::string as_path_part(std::string_view text) {
    std::string part(text.substr(0, kMaxPathPart));
    for (char& c : part) {
        if (c == '/' || static_cast<unsigned char>(c) < 0x20) c = '_';
    }
    if (!part.empty() && part.front() == '.') part.front() = '_';
    return part;
}

}  // namespace launch
}  // namespace ddprun
