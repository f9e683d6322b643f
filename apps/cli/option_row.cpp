#include "apps/cli/option_row.hpp"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>

#include "apps/cli/config_file.hpp"
#include "launcher/secret_text.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace app {

namespace {

// What the file of --config says, by long name ("--nnodes").
using ConfigValues = std::map<std::string, ToldValue>;

// Finds the row that a name in the file stands for. The file itself can only be named from outside.
const OptionRow& row_named(const std::string& name, const std::vector<OptionGroup>& groups) {
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    std::vector<std::string> names;
    for (const OptionGroup& group : groups) {
        for (const OptionRow& row : group.rows) {
            if (long_name(row) == long_name(config_row())) continue;
            for (const std::string& known : comma_separated(row.names)) {
                if (known == flag) return row;
                if (known.starts_with("--")) names.push_back(known.substr(2));
            }
        }
    }
    throw BadValue("no such option" + did_you_mean(flag.substr(2), names));
}

// Makes `$` of `$$`, and throws BadValue for any other one: only an option itself may fill it in.
std::string literal_text(const std::string& text, const OptionRow& row) {
    std::string literal;
    for (std::size_t at = 0; at < text.size(); ++at) {
        literal += text[at];
        if (text[at] == '$' && text.compare(++at, 1, "$") != 0)
            throw BadValue(fmt::format(
                "{}: nothing fills in a $ in a file; write what it stands for, $$ for a $ itself, or give {} on the "
                "command line, where the shell does",
                text, long_name(row)));
    }
    return literal;
}

// Throws BadValue for a name that is no option's, and for several values where there can be one.
const OptionRow& row_of(const ConfigEntry& entry, const std::vector<OptionGroup>& groups) {
    const OptionRow& row = row_named(entry.name, groups);
    if (entry.texts.size() > 1 && !row.has(kRepeated)) throw BadValue("takes one value, and no list");
    return row;
}

// Adds what an entry says.
void add_entry(ConfigEntry entry, const std::string& path, const std::vector<OptionGroup>& groups,
               ConfigValues& values) try {
    const OptionRow& row = row_of(entry, groups);
    if (entry.texts.empty()) return;
    if (!row.has(kTemplate)) {
        for (std::string& text : entry.texts) text = literal_text(text, row);
    }
    ToldValue& value = values[long_name(row)];
    if (!value.texts.empty()) throw BadValue("is said twice, under another of its names, too");
    value = {std::move(entry.texts), {OptionSource::config_file, fmt::format("{}:{}", path, entry.line)}};
} catch (const BadValue& bad) {
    throw BadValue(fmt::format("{}: {}: {}", entry.place, entry.name, bad.what()));
}

ConfigValues read_config_file(const std::string& path, const std::vector<OptionGroup>& groups,
                              const ToldFiles& files) {
    const auto bytes = files.read(path, kMaxConfigFile);
    if (!bytes) throw BadValue("cannot be read: " + why_untold(bytes.error(), kMaxConfigFile));
    ConfigValues values;
    for (ConfigEntry& entry : parse_config(edited_text(*bytes)))
        add_entry(std::move(entry), path, groups, values);
    return values;
}

const char* const kConfigFlag = "--config";

// The result has no text where the option is not given. It is looked for among the few that were, since a
// search by name goes through all.
ToldValue told_by_words(const CLI::App& app, const OptionRow& row) {
    for (const CLI::Option* option : app.parse_order()) {
        if (option->check_name(first_name(row))) return {option->results(), {OptionSource::command_line, ""}};
    }
    return {};
}

// Adds what a source says behind the stronger ones. An empty text counts as not given, and several texts
// count only for an option that may be repeated.
void add_told(const OptionRow& row, ToldValue value, std::vector<ToldValue>& told) {
    if (value.texts.empty()) return;
    if (!row.has(kRepeated)) value.texts = {value.texts.back()};
    told.push_back(std::move(value));
}

constexpr const char* kOwnBeginning = "DDPRUN_";
constexpr const char* kTorchrunsBeginning = "PET_";

std::string variable_with(const char* beginning, const OptionRow& row) {
    std::string name = long_name(row).substr(2);
    for (char& letter : name)
        letter = letter == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    return beginning + name;
}

void add_variables(const OptionRow& row, const Environment& environment, std::vector<ToldValue>& told) {
    const auto add = [&](const std::string& name) {
        const auto entry = environment.find(name);
        if (entry == environment.end()) return;
        // A file of variables may have been edited on Windows.
        std::string value = entry->second.substr(0, entry->second.find_last_not_of('\r') + 1);
        if (!value.empty()) add_told(row, {{std::move(value)}, {OptionSource::variable, name}}, told);
    };
    // Most environments have none of them, and to make all the names was half of the reading of the options.
    const auto has = [&environment](const char* beginning) {
        const auto first = environment.lower_bound(beginning);
        return first != environment.end() && first->first.starts_with(beginning);
    };
    if (has(kOwnBeginning)) add(variable_of(row));
    if (row.has(kTorchruns) && has(kTorchrunsBeginning)) add(variable_with(kTorchrunsBeginning, row));
    if (!row.other_variable.empty()) add(row.other_variable);
}

std::string home_of(const Environment& environment) {
    const std::string* home = find_variable(environment, "HOME");
    return home == nullptr ? "" : *home;
}

// `typed`: what errors call the option; empty: by its first name.
void set_row(const OptionRow& row, const ToldValue& given, const std::string& home,
             const std::string& typed = {}) {
    // An option that needs no value is a flag for a variable or a file.
    const bool may_be_bare =
        row.metavar.starts_with('[') && given.origin.source != OptionSource::command_line;
    const std::string& shown = typed.empty() ? first_name(row) : typed;
    for (std::string text : given.texts) {
        if (may_be_bare && (text == "false" || text == "0")) continue;
        if (may_be_bare && (text == "true" || text == "1")) text.clear();
        try {
            // As torchrun has it; another program's variable may be called so, and means something else by a
            // word.
            const bool is_torchruns = row.metavar.empty() && given.origin.name.starts_with("PET_");
            if (is_torchruns && !whole_number<int>(text)) throw BadValue("must be 1 or 0");
            row.set(row.has(kPath) ? at_home(text, home) : text);
        } catch (const BadValue& bad) {
            const bool is_variable = row.metavar.ends_with("NAME=VALUE");
            const std::string said = is_variable ? masked_words({first_name(row), text}).back() : text;
            throw UsageError(fmt::format("{} {}: {}{}", shown, said, bad.what(), origin_text(given.origin)));
        } catch (const UsageError& error) {
            const std::string name = long_name(row);
            const std::string said = as_said(error.what(), {{name, shown}}, {{name, given.origin}});
            throw UsageError(with_place(said, given.origin));
        }
    }
}

// The text with the default behind its first line, and at its end whose value counts.
std::string description_of(const OptionRow& row) {
    const auto line = std::min(row.help.find('\n'), row.help.size());
    std::string text = row.help.substr(0, line);
    if (!row.fallback.empty()) text += fmt::format(" ({})", row.fallback);
    std::string rest = row.help.substr(std::min(line + 1, row.help.size()));
    const std::string scope = row.has(kNode0)      ? "Node 0's counts."
                              : row.has(kAllNodes) ? "The same on all nodes."
                                                   : "";
    if (!rest.empty() && !scope.empty()) rest += ' ';
    rest += scope;
    return rest.empty() ? text : text + "\n" + rest;
}

void add_row(CLI::App& app, const std::string& heading, const OptionRow& row) {
    const bool is_word = !row.names.starts_with('-');
    CLI::Option* option =
        row.metavar.empty() && !is_word ? app.add_flag(row.names) : app.add_option(row.names);
    option->description(description_of(row))->required(is_word);
    if (!row.metavar.empty()) option->type_name(row.metavar);
    if (!heading.empty()) option->group(heading);
    if (row.metavar.starts_with('[')) option->expected(0, 1);
    if (row.has(kRepeated)) option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

template <class IsWanted>
void add_rows_that(CLI::App& app, const std::vector<OptionGroup>& groups, const IsWanted& is_wanted) {
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    for (const OptionGroup& group : groups) {
        for (const OptionRow& row : group.rows) {
            if (is_wanted(row)) add_row(app, group.heading, row);
        }
    }
}

}  // namespace

std::string first_name(const OptionRow& row) { return row.names.substr(0, row.names.find(',')); }

std::string long_name(std::string_view names) {
    const auto begin = std::min(names.find("--"), names.size());
    return std::string(names.substr(begin, names.find(',', begin) - begin));
}

std::string long_name(const OptionRow& row) { return long_name(row.names); }

std::string variable_of(const OptionRow& row) { return variable_with(kOwnBeginning, row); }

std::string other_variables_of(const OptionRow& row) {
    std::string names = row.has(kTorchruns) ? variable_with(kTorchrunsBeginning, row) : "";
    if (!row.other_variable.empty()) names += ", " + row.other_variable;
    return names;
}

OptionRow config_row() {
    return {kConfigFlag, "FILE",
            "Options from a file, as NAME = VALUE (TOML); whatever else sets an option is stronger",
            [](const std::string&) {}, kPath};
}

void add_rows(CLI::App& app, const std::vector<OptionGroup>& groups) {
    add_rows_that(app, groups, [](const OptionRow&) { return true; });
}

void add_typed_rows(CLI::App& app, const std::vector<OptionGroup>& groups, const TypedNames& typed) {
    const auto own = app.get_options();
    const bool prints = std::any_of(own.begin(), own.end(), [&typed](const CLI::Option* option) {
        return typed.contains("--" + option->get_lnames().front());
    });
    add_rows_that(app, groups,
                  [&](const OptionRow& row) { return prints || typed.contains(long_name(row)); });
}

void take_values(const CLI::App& app, const std::vector<OptionGroup>& groups) {
    const Environment home{{"HOME", home_of(current_environment())}};
    set_rows(groups, told_options(app, groups, home, {}), home, {});
}

std::vector<ToldOption> told_options(const CLI::App& app, const std::vector<OptionGroup>& groups,
                                     const Environment& environment, const ToldFiles& files) {
    const auto told_of = [&](const OptionRow& row) {
        std::vector<ToldValue> told;
        add_told(row, told_by_words(app, row), told);
        add_variables(row, environment, told);
        return told;
    };
    ConfigValues config;
    if (const auto told = told_of(config_row()); !told.empty()) {
        const std::string& path = told.front().texts.back();
        try {
            config = read_config_file(at_home(path, home_of(environment)), groups, files);
        } catch (const BadValue& bad) {
            throw UsageError(
                fmt::format("{} {}: {}{}", kConfigFlag, path, bad.what(), origin_text(told.front().origin)));
        }
    }
    std::vector<ToldOption> options;
    for (const OptionGroup& group : groups) {
        for (const OptionRow& row : group.rows) {
            ToldOption option{long_name(row), told_of(row)};
            if (const auto entry = config.find(option.name); entry != config.end())
                add_told(row, std::move(entry->second), option.told);
            if (!option.told.empty()) options.push_back(std::move(option));
        }
    }
    return options;
}

void set_rows(const std::vector<OptionGroup>& groups, const std::vector<ToldOption>& told,
              const Environment& environment, const TypedNames& typed) {
    const std::string home = home_of(environment);
    auto next = told.begin();
    for (const OptionGroup& group : groups) {
        for (const OptionRow& row : group.rows) {
            if (next == told.end() || next->name != long_name(row)) continue;
            const ToldValue& value = (next++)->told.front();
            const auto name = typed.find(long_name(row));
            const bool is_typed = value.origin.source == OptionSource::command_line && name != typed.end();
            set_row(row, value, home, is_typed ? name->second : "");
        }
    }
}

OptionOrigins origins_of(const std::vector<ToldOption>& options) {
    OptionOrigins origins;
    for (const ToldOption& option : options) origins[option.name] = option.told.front().origin;
    return origins;
}

std::string as_said(const std::string& message, const TypedNames& typed, const OptionOrigins& origins) {
    const std::string name = message.substr(0, message.find_first_of(" :="));
    const auto origin = origins.find(name);
    if (origin == origins.end()) return message;
    const auto word = typed.find(name);
    const bool is_typed = word != typed.end() && origin->second.source == OptionSource::command_line;
    return with_place((is_typed ? word->second : name) + message.substr(name.size()), origin->second);
}

std::string with_place(const std::string& message, const OptionOrigin& origin) {
    const std::string place = origin_text(origin);
    return message.ends_with(place) ? message : message + place;
}

std::string origin_text(const OptionOrigin& origin) {
    return origin.name.empty() ? "" : fmt::format(" (from {})", origin.name);
}

}  // namespace app
}  // namespace ddprun
