#include "launcher/output/line_prefix.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

namespace ddprun::inline launch {
namespace {

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view leading_name(std::string_view text) {
    std::size_t size = 0;
    if (!text.empty() && begins_name(text.front())) {
        while (size < text.size() && continues_name(text[size])) ++size;
    }
    return text.substr(0, size);
}

// Reads what a dollar sign at the start of `text` stands for: the name, and how many bytes it takes with the sign.
// No name where the rules of string.Template see none.
std::pair<std::string_view, std::size_t> dollar_name(std::string_view text) {
    if (text.size() > 1 && text[1] == '{') {
        const auto name = leading_name(text.substr(2));
        const std::size_t end = 2 + name.size();
        if (name.empty() || end >= text.size() || text[end] != '}') return {{}, 1};
        return {name, end + 1};
    }
    const auto name = leading_name(text.substr(1));
    return {name, 1 + name.size()};
}

}  // namespace

std::optional<LinePrefix::Field> LinePrefix::field_named(std::string_view name, Grammar grammar) {
    static constexpr struct {
        Field field;
        std::string_view ours, torchruns;
    } kNames[] = {{Field::host, "host", "hostname"},
                  {Field::rank, "rank", "rank"},
                  {Field::local_rank, "local_rank", "local_rank"},
                  {Field::role, "role", "role_name"},
                  {Field::time, "time", ""},
                  {Field::stream, "stream", ""}};
    for (const auto& entry : kNames) {
        if (!name.empty() && name == (grammar == Grammar::ours ? entry.ours : entry.torchruns))
            return entry.field;
    }
    return std::nullopt;
}

std::variant<LinePrefix, std::string> LinePrefix::parse(std::string_view text) {
    LinePrefix prefix;
    while (!text.empty()) {
        const auto brace = text.find_first_of("{}");
        prefix.add_text(text.substr(0, brace));
        if (brace == std::string_view::npos) break;
        text.remove_prefix(brace);
        if (text.size() > 1 && text[0] == text[1]) {
            prefix.add_text(text.substr(0, 1));
            text.remove_prefix(2);
            continue;
        }
        const auto end = text.front() == '{' ? text.find('}') : std::string_view::npos;
        if (end == std::string_view::npos) {
            return fmt::format("'{}' has a brace without its other half ({{{{ and }}}} are braces)", text);
        }
        const auto field = field_named(text.substr(1, end - 1), Grammar::ours);
        if (!field) {
            return fmt::format(
                "'{}' is none of {{host}} {{rank}} {{local_rank}} {{role}} {{time}} {{stream}}",
                text.substr(0, end + 1));
        }
        prefix.add_field(*field);
        text.remove_prefix(end + 1);
    }
    return prefix;
}

LinePrefix LinePrefix::parse_dollar(std::string_view text) {
    LinePrefix prefix;
    while (!text.empty()) {
        const auto dollar = text.find('$');
        prefix.add_text(text.substr(0, dollar));
        if (dollar == std::string_view::npos) break;
        text.remove_prefix(dollar);
        if (text.size() > 1 && text[1] == '$') {
            prefix.add_text("$");
            text.remove_prefix(2);
            continue;
        }
        const auto [name, size] = dollar_name(text);
        const auto field = field_named(name, Grammar::torchruns);
        if (field) {
            prefix.add_field(*field);
        } else {
            prefix.add_text(text.substr(0, size));
        }
        text.remove_prefix(size);
    }
    return prefix;
}

LinePrefix LinePrefix::tee_header() { return parse_dollar("[${role_name}${local_rank}]:"); }

bool LinePrefix::uses_time() const {
    return std::any_of(pieces_.begin(), pieces_.end(),
                       [](const Piece& piece) { return piece.field == Field::time; });
}

LinePrefix LinePrefix::with(const LineOrigin& origin) const {
    LinePrefix result;
    for (const Piece& piece : pieces_) {
        if (piece.field == Field::time) {
            result.add_field(Field::time);
        } else {
            result.add_text(value(piece, origin));
        }
    }
    return result;
}

std::string LinePrefix::render(std::string_view time) const {
    std::string text;
    for (const Piece& piece : pieces_) text += piece.field == Field::time ? time : piece.text;
    return text;
}

std::string LinePrefix::value(const Piece& piece, const LineOrigin& origin) {
    switch (piece.field) {
        case Field::literal:
        case Field::time: return piece.text;
        case Field::host: return origin.host;
        case Field::rank: return std::to_string(origin.rank);
        case Field::local_rank: return std::to_string(origin.local_rank);
        case Field::role: return origin.role;
        case Field::stream: return origin.stream;
    }
    return {};
}

void LinePrefix::add_text(std::string_view text) {
    if (text.empty()) return;
    if (pieces_.empty() || pieces_.back().field != Field::literal) pieces_.emplace_back();
    pieces_.back().text += text;
}

}  // namespace ddprun::inline launch
