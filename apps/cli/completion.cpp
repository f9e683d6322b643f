#include "apps/cli/completion.hpp"

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <boost/algorithm/string/replace.hpp>

#include "apps/cli/option_values.hpp"

namespace ddprun {
inline namespace app {
namespace {

std::vector<std::string> words_of(const CLI::Option& option) {
    std::vector<std::string> words;
    for (const std::string& name : option.get_lnames()) words.push_back("--" + name);
    for (const std::string& name : option.get_snames()) words.push_back("-" + name);
    return words;
}

// Returns the names of the options with a value in the next word, or of all.
std::string completed_names(const CLI::App& app, bool with_value, const std::string& between) {
    std::string names;
    for (const CLI::Option* option : shown_options(app)) {
        if (with_value && option->get_items_expected_min() == 0) continue;
        for (const std::string& word : words_of(*option)) names += (names.empty() ? "" : between) + word;
    }
    return names;
}

bool starts_programs(const CLI::App& app) {
    return app.get_parent() == nullptr && app.get_subcommands({}).empty() &&
           app.get_options([](const CLI::Option* option) { return option->get_positional(); }).empty();
}

// The first word that is no option is the program whose own completion takes over, or the command whose
// options are completed.
std::string bash_completion(const CLI::App& app) {
    std::string commands;
    std::string names;
    for (const CLI::App* command : app.get_subcommands({})) {
        names += (names.empty() ? "" : " ") + command->get_name();
        commands += fmt::format("        {}) options=\"{}\"; commands= ;;\n", command->get_name(),
                                completed_names(*command, false, " "));
    }
    std::string text = R"(_NAME() {
    local current=${COMP_WORDS[COMP_CWORD]} options="OPTIONS" commands="COMMANDS" at
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; ++at)); do
        case ${COMP_WORDS[at]} in
        VALUED)
            [[ ${COMP_WORDS[at + 1]} == = ]] && ((++at))
            ((++at))
            ((at >= COMP_CWORD)) && return
            ;;
        -*) ;;
CASES        esac
    done
    [[ $current == -* ]] && commands=
    [[ $current == -* || $commands ]] || return
    mapfile -t COMPREPLY < <(compgen -W "${commands:-$options}" -- "$current")
}
complete -o default -F _NAME NAME
)";
    text = boost::replace_all_copy(text, "OPTIONS", completed_names(app, false, " "));
    text = boost::replace_all_copy(text, "COMMANDS", names);
    text = boost::replace_all_copy(text, "VALUED", completed_names(app, true, "|"));
    if (starts_programs(app)) {
        commands = R"(        *)
            [[ $(type -t _command_offset) == function ]] && _command_offset "$at"
            return
            ;;
)";
    }
    text = boost::replace_all_copy(text, "CASES", commands);
    return boost::replace_all_copy(text, "NAME", app.get_name());
}

// Puts the text in single quotes of a shell.
std::string shell_quoted(const std::string& text) {
    return "'" + boost::replace_all_copy(text, "'", "'\\''") + "'";
}

std::string zsh_arguments(const CLI::App& app, const std::string& indent) {
    std::string text = indent + "_arguments -S";
    for (const CLI::Option* option : shown_options(app)) {
        for (const std::string& word : words_of(*option)) {
            const bool is_long = word.starts_with("--");
            std::string spec = "*" + word;
            if (option->get_items_expected_min() > 0) spec += is_long ? "=" : "+";
            spec += fmt::format(
                "[{}]",
                boost::replace_all_copy(boost::replace_all_copy(short_text(*option), "[", "("), "]", ")"));
            if (option->get_items_expected_min() > 0)
                spec +=
                    fmt::format(":{}:_files", boost::replace_all_copy(option->get_type_name(), ":", "\\:"));
            text += fmt::format(" \\\n{}    {}", indent, shell_quoted(spec));
        }
    }
    return fmt::format("{} \\\n{}    '{}'", text, indent,
                       starts_programs(app) ? "*::: :_normal" : "*: :_files");
}

std::string zsh_completion(const CLI::App& app) {
    const std::string& name = app.get_name();
    const std::string begin = fmt::format("#compdef {0}\n_{0}() {{\n", name);
    std::string commands;
    std::string cases;
    for (const CLI::App* command : app.get_subcommands({})) {
        commands += " " + shell_quoted(command->get_name() + ":" + command->get_description());
        cases +=
            fmt::format("        {})\n{} ;;\n", command->get_name(), zsh_arguments(*command, "            "));
    }
    const std::string end = fmt::format("}}\n_{} \"$@\"\n", name);
    if (commands.empty()) return fmt::format("{}{}\n{}", begin, zsh_arguments(app, "    "), end);
    return fmt::format(R"({}    local -a commands=({})
    if ((CURRENT == 2)); then
        _describe command commands
{}
    else
        local command=$words[2]
        shift words
        ((CURRENT--))
        case $command in
{}        esac
    fi
{})",
                       begin, commands, zsh_arguments(app, "        "), cases, end);
}

std::string fish_lines(const CLI::App& app, const std::string& head) {
    std::string text;
    for (const CLI::Option* option : shown_options(app)) {
        text += head;
        for (const std::string& name : option->get_snames()) text += " -s " + name;
        for (const std::string& name : option->get_lnames()) text += " -l " + name;
        if (option->get_items_expected_min() > 0) text += " -r";
        text +=
            fmt::format(" -d {}\n", shell_quoted(boost::replace_all_copy(short_text(*option), "\\", "\\\\")));
    }
    return text;
}

std::string fish_completion(const CLI::App& app) {
    const std::string head = "complete -c " + app.get_name();
    std::string text = fish_lines(app, head);
    for (const CLI::App* command : app.get_subcommands({})) {
        text += fmt::format("{} -n __fish_use_subcommand -f -a {} -d {}\n{}", head, command->get_name(),
                            shell_quoted(command->get_description()),
                            fish_lines(*command, fmt::format("{} -n '__fish_seen_subcommand_from {}'", head,
                                                             command->get_name())));
    }
    return text;
}

}  // namespace

std::vector<const CLI::Option*> shown_options(const CLI::App& app) {
    return app.get_options(
        [](const CLI::Option* option) { return !option->get_group().empty() && !option->get_positional(); });
}

std::string short_text(const CLI::Option& option) {
    return option.get_description().substr(0, option.get_description().find('\n'));
}

std::string completion(const CLI::App& app, const std::string& shell) {
    if (shell == "bash") return bash_completion(app);
    if (shell == "zsh") return zsh_completion(app);
    if (shell == "fish") return fish_completion(app);
    throw BadValue("must be bash, zsh or fish");
}

}  // namespace app
}  // namespace ddprun
