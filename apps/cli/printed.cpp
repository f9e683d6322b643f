#include "apps/cli/printed.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/cli/completion.hpp"
#include "apps/cli/option_values.hpp"
#include "rendezvous/system/split.hpp"

namespace ddprun::inline app {
namespace {

const char* const kPrintCompletion = "--print-completion";
const char* const kPrintMan = "--print-man";
const char* const kPrintFlags = "--print-flags";

// What --help would show under `group`.
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

// All in one line: what --help shows is a sentence of its own before the rest.
std::string whole_text(const CLI::Option& option) {
    std::string text = option.get_description();
    if (const auto line = text.find('\n'); line != text.npos) text.replace(line, 1, ". ");
    return text;
}

// Dashes that can be copied and searched for; nothing at a line's beginning that is a request to troff.
std::string troff(const std::string& text) {
    const std::string escaped = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
    return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string man_entry(const std::string& head, const std::string& value, const std::string& text) {
    return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", troff(head), troff(value), troff(text));
}

std::string usage_of(const CLI::App& app) {
    const std::string help = app.help(), head = "Usage: ";
    const auto begin = help.find(head) + head.size();
    return help.substr(begin, help.find('\n', begin) - begin);
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

// A page of section 1, for man.
std::string man_page(const CLI::App& app) {
    const std::string& name = app.get_name();
    std::string upper = name;
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](char c) { return static_cast<char>(c & ~0x20); });
    std::string text =
        fmt::format(".TH {} 1 \"\" \"{}\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n.SH OPTIONS\n", upper,
                    app.version(), name, troff(app.get_description()), troff(usage_of(app)));
    for (const std::string& group : app.get_groups()) {
        if (group.empty() || options_of(app, group).empty()) continue;
        text += (group == "Options" ? "" : ".SS " + group + "\n") + man_options(app, group);
    }
    if (!app.get_subcommands({}).empty()) text += ".SH COMMANDS\n";
    for (const CLI::App* command : app.get_subcommands({}))
        text += fmt::format(".SS {}\n{}\n{}", command->get_name(), troff(command->get_description()),
                            man_options(*command, "Options"));
    const std::string footer = app.get_footer();
    if (footer.empty()) return text;
    text += ".SH NOTES\n.nf\n";
    for (const std::string_view line : split_at(footer, '\n')) text += troff(std::string(line)) + "\n";
    return text + ".fi\n";
}

// A table in Markdown, one row an option.
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
                    replaced(prefix + names_of(*option) + value_of(*option), "|", "\\|"),
                    replaced(as_code(whole_text(*option)), "|", "\\|"),
                    variable.empty() ? "" : fmt::format("`{}`", replaced(variable, ", ", "`, `")));
            }
        }
    };
    add_options(app, "");
    for (const CLI::App* command : app.get_subcommands({})) add_options(*command, command->get_name() + " ");
    return text;
}

}  // namespace

void add_print_options(CLI::App& app) {
    app.add_option(kPrintCompletion)
        ->type_name("SHELL")
        ->description("Print what bash, zsh or fish complete");
    app.add_flag(kPrintMan)->group("");
    app.add_flag(kPrintFlags)->group("");
}

bool wants_print(const CLI::App& app) {
    return app.count(kPrintMan) + app.count(kPrintFlags) + app.count(kPrintCompletion) > 0;
}

std::string printed(const CLI::App& app) {
    if (app.count(kPrintMan) > 0) return man_page(app);
    if (app.count(kPrintFlags) > 0) return flag_table(app);
    const std::string shell = app.get_option(kPrintCompletion)->results().back();
    try {
        return completion(app, shell);
    } catch (const BadValue& bad) {
        throw UsageError(fmt::format("{} {}: {}", kPrintCompletion, shell, bad.what()));
    }
}

}  // namespace ddprun::inline app
