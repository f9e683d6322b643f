#include "apps/cli/config_file.hpp"

#include <fmt/core.h>
#define TOML_ENABLE_FORMATTERS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>

#include "apps/cli/option_values.hpp"
#include "launcher/harmless_text.hpp"

namespace ddprun {
inline namespace app {
namespace {

std::string place_of(const toml::source_position& place) {
    return fmt::format("line {}, column {}", place.line, place.column);
}

// Returns the name of another grammar that the text is plainly in, by its first line that says something.
std::string other_grammar(std::string_view text) {
    for (std::string_view line : lines_of(text)) {
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        if (line.empty() || line.front() == '#') continue;
        if (line.front() == '{') return "JSON";
        return line.front() == '-' || line.find(':') < line.find('=') ? "YAML" : "";
    }
    return "";
}

std::string text_of(const toml::node& value, const std::string& name) {
    if (const auto* text = value.as_string()) {
        if (text->get().find('\0') == std::string::npos) return text->get();
        throw BadValue(fmt::format("{}: {}: has a zero byte (\\u0000) in it, which no value can have",
                                   place_of(value.source().begin), name));
    }
    if (const auto* number = value.as_integer()) return std::to_string(number->get());
    if (const auto* number = value.as_floating_point()) return fmt::format("{}", number->get());
    if (const auto* truth = value.as_boolean()) return truth->get() ? "true" : "false";
    throw BadValue(fmt::format("{}: {}: must be a text, a number, true, false or a list of those",
                               place_of(value.source().begin), name));
}

ConfigEntry entry_of(const toml::key& key, const toml::node& value) {
    const std::string name(key.str());
    if (value.is_table() || value.is_array_of_tables())
        throw BadValue(
            fmt::format("{}: {}: options are in no table, and their names have no dots; write NAME = VALUE "
                        "above all tables",
                        place_of(value.source().begin), name));
    ConfigEntry entry{
        .name = name, .texts = {}, .line = value.source().begin.line, .place = place_of(key.source().begin)};
    const auto add = [&](const toml::node& one) {
        if (std::string text = text_of(one, name); !text.empty()) entry.texts.push_back(std::move(text));
    };
    if (const toml::array* list = value.as_array()) {
        for (const toml::node& one : *list) add(one);
    } else {
        add(value);
    }
    return entry;
}

}  // namespace

std::vector<ConfigEntry> parse_config(std::string_view text) {
    try {
        const toml::table table = toml::parse(text);
        std::vector<ConfigEntry> entries;
        for (const auto& [key, value] : table) entries.push_back(entry_of(key, value));
        std::sort(entries.begin(), entries.end(),
                  [](const ConfigEntry& a, const ConfigEntry& b) { return a.line < b.line; });
        return entries;
    } catch (const toml::parse_error& error) {
        const std::string other = other_grammar(text);
        const std::string hint = other.empty()
                                     ? "; write NAME = VALUE, a text in quotes"
                                     : fmt::format("; this looks like {}, and only TOML is read", other);
        throw BadValue(
            fmt::format("{}: no TOML: {}{}", place_of(error.source().begin), error.description(), hint));
    }
}

}  // namespace app
}  // namespace ddprun
