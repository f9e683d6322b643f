#include "apps/cli/printed.hpp"

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <boost/algorithm/string/replace.hpp>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "apps/cli/completion.hpp"
#include "apps/cli/option_values.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace app {

namespace {

const char* const kPrintCompletion = "--print-completion";
const char* const kPrintMan = "--print-man";
const char* const kPrintFlags = "--print-flags";
const char* const kLicenses = "--licenses";

// Returns the options that --help would show under `group`.
std::vector<const CLI::Option*> options_of(const CLI::App& app, const std::string& group) {
    return app.get_options([&group](const CLI::Option* option) { return option->get_group() == group; });
}

// "-r, --redirects", and its value behind it.
std::string names_of(const CLI::Option& option) {
    std::string names;
    for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
    for (const std::string& name : option.get_lnames()) names += (names.empty() ? "--" : ", --") + name;
    return option.get_positional() ? option.get_name() : names;
}

std::string value_of(const CLI::Option& option) {
    const std::string& name = option.get_type_name();
    const bool has_value = option.get_items_expected_max() > 0 && !option.get_positional();
    return !has_value ? "" : name.starts_with('[') ? name : " " + name;
}

// Puts all in one line: the text that --help shows becomes a sentence before the rest.
std::string whole_text(const CLI::Option& option) {
    std::string text = option.get_description();
    if (const auto line = text.find('\n'); line != text.npos) text.replace(line, 1, ". ");
    return text;
}

// Dashes that can be copied and searched for; nothing at a line's beginning that is a request to troff.
std::string troff(const std::string& text) {
    const std::string escaped =
        boost::replace_all_copy(boost::replace_all_copy(text, "\\", "\\e"), "-", "\\-");
    return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string man_entry(const std::string& head, const std::string& value, const std::string& text) {
    return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", troff(head), troff(value), troff(text));
}

// The line without its head, for a command with the names of those that it belongs to.
std::string usage_of(const CLI::App& app) {
    std::string name = app.get_name();
    for (const CLI::App* above = app.get_parent(); above != nullptr; above = above->get_parent())
        name = above->get_name() + " " + name;
    const auto& formatter = dynamic_cast<const CLI::Formatter&>(*app.get_formatter());
    const std::string line = formatter.make_usage(&app, name), head = "Usage: ";
    const auto begin = line.find(head) + head.size();
    return line.substr(begin, line.find('\n', begin) - begin);
}

std::string man_options(const CLI::App& app, const std::string& group) {
    std::string text;
    for (const CLI::Option* option : options_of(app, group)) {
        const std::string variable = option->get_envname();
        text += man_entry(names_of(*option), value_of(*option),
                          whole_text(*option) + (variable.empty() ? "" : " [" + variable + "]"));
    }
    return text;
}

// Words that a reader would have to type, in Markdown's way.
std::string as_code(const std::string& text) {
    std::string marked;
    for (const std::string_view word : split_at(text, ' ')) {
        const auto first = word.find_first_not_of('(');
        const auto last = word.find_last_not_of(".,;:)");
        const bool is_code =
            (word.find_first_of("_{=$/") != word.npos || word.find("--") != word.npos) && word.size() > 1;
        if (!marked.empty()) marked += ' ';
        if (is_code && first != word.npos && last != word.npos && first <= last) {
            marked += fmt::format("{}`{}`{}", word.substr(0, first), word.substr(first, last - first + 1),
                                  word.substr(last + 1));
        } else {
            marked += word;
        }
    }
    return marked;
}

// Makes a page of section 1, for man.
std::string man_page(const CLI::App& app) {
    const std::string& name = app.get_name();
    const std::string first_line = app.version().substr(0, app.version().find('\n'));
    std::string upper = name;
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](char c) { return static_cast<char>(c & ~0x20); });
    std::string text =
        fmt::format(".TH {} 1 \"\" \"{}\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n.SH OPTIONS\n", upper,
                    first_line, name, troff(app.get_description()), troff(usage_of(app)));
    for (const std::string& group : app.get_groups()) {
        if (group.empty() || options_of(app, group).empty()) continue;
        text += (group == "Options" ? "" : ".SS " + group + "\n") + man_options(app, group);
    }
    if (!app.get_subcommands({}).empty()) text += ".SH COMMANDS\n";
    for (const CLI::App* command : app.get_subcommands({}))
        text += fmt::format(".SS {}\n{}\n{}", command->get_name(), troff(command->get_description()),
                            man_options(*command, "Options"));
    const auto add_section = [&text](const char* heading, std::string_view lines) {
        text += fmt::format(".SH {}\n.nf\n", heading);
        for (const std::string_view line : split_at(lines, '\n')) text += troff(std::string(line)) + "\n";
        text += ".fi\n";
    };
    std::string notes = app.get_footer();
    constexpr std::string_view kExamplesHead = "Examples\n", kGap = "\n\n";
    if (notes.starts_with(kExamplesHead)) {
        const auto end = notes.find(kGap);
        add_section("EXAMPLES", notes.substr(kExamplesHead.size(), end - kExamplesHead.size()));
        notes.erase(0, end + kGap.size());
    }
    if (!notes.empty()) add_section("NOTES", notes);
    return text;
}

// Makes a table in Markdown, one row an option.
std::string flag_table(const CLI::App& app) {
    std::string text = "| flag | meaning | variable |\n|---|---|---|\n";
    const auto add_options = [&text](const CLI::App& of, const std::string& prefix) {
        for (const std::string& group : of.get_groups()) {
            if (group.empty()) continue;
            for (const CLI::Option* option : options_of(of, group)) {
                if (option->get_positional() || (option == of.get_help_ptr() && !prefix.empty())) continue;
                const std::string variable = option->get_envname();
                text += fmt::format(
                    "| `{}` | {} | {} |\n",
                    boost::replace_all_copy(prefix + names_of(*option) + value_of(*option), "|", "\\|"),
                    boost::replace_all_copy(as_code(whole_text(*option)), "|", "\\|"),
                    variable.empty() ? ""
                                     : fmt::format("`{}`", boost::replace_all_copy(variable, ", ", "`, `")));
            }
        }
    };
    add_options(app, "");
    for (const CLI::App* command : app.get_subcommands({})) add_options(*command, command->get_name() + " ");
    return text;
}

constexpr std::size_t kHelpWidth = 80;
constexpr std::size_t kTextColumn = 30;  // where the texts of a list begin
constexpr const char* kAllTopics = "all";

// The columns that a text takes on a terminal: its characters, not its bytes.
std::size_t columns_of(std::string_view text) {
    const auto goes_on = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; };
    return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), goes_on));
}

// `text` in lines of at most kHelpWidth columns, each behind `indent` blanks. A longer word has a line of its
// own.
std::string wrapped(const std::string& text, std::size_t indent) {
    std::string lines, line;
    const auto end_line = [&] {
        if (!line.empty()) lines += std::string(indent, ' ') + line + "\n";
        line.clear();
    };
    const std::string words = boost::replace_all_copy(text, "\n", " ");
    for (const std::string_view word : split_at(words, ' ')) {
        if (!line.empty() && indent + columns_of(line) + 1 + columns_of(word) > kHelpWidth) end_line();
        line += (line.empty() ? "" : " ") + std::string(word);
    }
    end_line();
    return lines;
}

// "  --name VALUE      what it says"; a long name has a line of its own.
std::string help_entry(const std::string& name, const std::string& text) {
    const std::string head = "  " + name;
    const std::string lines = wrapped(text, kTextColumn);
    if (lines.empty()) return head + "\n";
    const std::size_t columns = columns_of(head);
    return columns + 2 > kTextColumn ? head + "\n" + lines : head + lines.substr(columns);
}

// Writes a name as a reader would type it: lower case, and a dash for whatever is no letter, digit or dash.
std::string topic_of(std::string text) {
    text.erase(0, std::min(text.find_first_not_of('-'), text.size()));
    for (char& letter : text) {
        const auto byte = static_cast<unsigned char>(letter);
        letter = std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : '-';
    }
    return text;
}

bool is_option_called(const CLI::Option& option, const std::string& name) {
    const auto is_it = [&name](const std::string& own) { return topic_of(own) == name; };
    return std::any_of(option.get_lnames().begin(), option.get_lnames().end(), is_it) ||
           std::find(option.get_snames().begin(), option.get_snames().end(), name) !=
               option.get_snames().end();
}

const OptionRow* row_of(const CLI::Option& option, const std::vector<OptionGroup>& groups) {
    for (const OptionGroup& group : groups) {
        for (const OptionRow& row : group.rows) {
            if (option.check_name(first_name(row))) return &row;
        }
    }
    return nullptr;
}

// Describes one option with all that is known of it.
std::string whole_entry(const CLI::App& app, const CLI::Option& option,
                        const std::vector<OptionGroup>& groups) {
    std::string text = names_of(option) + value_of(option) + "\n" + wrapped(whole_text(option), 4);
    const OptionRow* row = row_of(option, groups);
    // A program with a file of options takes them from variables, too.
    const bool has_variables = row != nullptr && app.get_option_no_throw(long_name(config_row())) != nullptr;
    if (has_variables && long_name(*row) != long_name(config_row())) {
        const std::string more = other_variables_of(*row);
        text += wrapped("Variable: " + variable_of(*row) + (more.empty() ? "" : ", " + more), 4);
    }
    return text + "\n";
}

// Quotes the rows of the table that speak of this code; a worker may have ended with any but 0.
std::string help_on_code(int code) {
    const auto signal = signal_name(code - kExitSignalBase);
    std::string text = fmt::format("Exit code {}{}\n", code, signal ? ", 128+n for " + *signal : "");
    const std::string table = exit_code_table();
    for (const std::string_view row : split_at(table, '\n')) {
        const auto cells = split_at(row, '|');
        if (cells.size() < 4) continue;
        // "| 69 | the nodes did not … |"
        const std::string key(cells[1].substr(1, cells[1].size() - 2));
        if (key == std::to_string(code) || (key == "128+n" && signal) || (key == "the worker's" && code > 0))
            text += help_entry(key, std::string(cells[2].substr(1, cells[2].size() - 2)));
    }
    return text;
}

std::string help_on(const CLI::App& app, const std::vector<OptionGroup>& groups, const std::string& topic) {
    constexpr int kMostCode = 255;
    if (const auto code = whole_number<int>(topic); code && *code >= 0 && *code <= kMostCode)
        return help_on_code(*code);
    const std::string name = topic_of(topic);
    std::vector<std::string> names{kAllTopics};
    std::string text;
    for (const CLI::Option* option : shown_options(app)) {
        if (is_option_called(*option, name)) return whole_entry(app, *option, groups);
        for (const std::string& own : option->get_lnames()) names.push_back(own);
        if (topic_of(option->get_group()) == name) text += whole_entry(app, *option, groups);
    }
    for (const std::string& group : app.get_groups()) names.push_back(topic_of(group));
    if (text.empty())
        throw UsageError(fmt::format("--help {}: no such option and no such group{}", topic,
                                     did_you_mean(name, names, "; see " + app.get_name() + " --help")));
    return text;
}

// Lists the options in groups; then the commands.
std::string help_lists(const CLI::App& app) {
    std::string text, words;
    for (const CLI::Option* option : app.get_options())
        if (option->get_positional()) words += help_entry(names_of(*option), option->get_description());
    if (!words.empty()) text += "\nPositionals\n" + words;
    for (const std::string& group : app.get_groups()) {
        std::string lines;
        for (const CLI::Option* option : options_of(app, group)) {
            const bool is_word = option->get_positional();
            if (!group.empty() && !is_word)
                lines += help_entry(names_of(*option) + value_of(*option), short_text(*option));
        }
        if (!lines.empty()) text += "\n" + group + "\n" + lines;
    }
    std::string commands;
    for (const CLI::App* command : app.get_subcommands({}))
        commands += help_entry(command->get_name(), command->get_description());
    return commands.empty() ? text : text + "\nCommands\n" + commands;
}

}  // namespace

std::string help_text(const CLI::App& app, const std::vector<OptionGroup>& groups, const std::string& topic) {
    if (const auto commands = app.get_subcommands(); !commands.empty())
        return help_text(*commands.front(), groups, topic);
    if (!topic.empty() && topic != kAllTopics) return help_on(app, groups, topic);
    std::string text = "Usage: " + usage_of(app) + "\n" + wrapped(app.get_description(), 0) + help_lists(app);
    return app.get_footer().empty() ? text : text + "\n" + app.get_footer() + "\n";
}

std::string with_bold_headings(const std::string& text) {
    std::string marked;
    const auto lines = split_at(text, '\n');
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const bool is_first = i == 0 || lines[i - 1].empty();
        const bool is_head = is_first && !lines[i].empty() && lines[i].front() != ' ' &&
                             i + 1 < lines.size() && lines[i + 1].starts_with("  ");
        if (i > 0) marked += '\n';
        marked += is_head ? fmt::format("\x1b[1m{}\x1b[m", lines[i]) : lines[i];
    }
    return marked;
}

void add_print_options(CLI::App& app) {
    app.add_option(kPrintCompletion)
        ->type_name("SHELL")
        ->description("Print what bash, zsh or fish complete");
    app.add_flag(kLicenses)->description("Show the licences of all that is inside and exit");
    app.add_flag(kPrintMan)->group("");
    app.add_flag(kPrintFlags)->group("");
}

bool wants_print(const CLI::App& app) {
    return app.count(kPrintMan) + app.count(kPrintFlags) + app.count(kPrintCompletion) +
               app.count(kLicenses) >
           0;
}

std::string printed(const CLI::App& app) {
    if (app.count(kLicenses) > 0) return licenses();
    if (app.count(kPrintMan) > 0) return man_page(app);
    if (app.count(kPrintFlags) > 0) return flag_table(app);
    const std::string shell = app.get_option(kPrintCompletion)->results().back();
    try {
        return completion(app, shell);
    } catch (const BadValue& bad) {
        throw UsageError(fmt::format("{} {}: {}", kPrintCompletion, shell, bad.what()));
    }
}

}  // namespace app
}  // namespace ddprun
