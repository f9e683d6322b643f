#include "apps/cli/completion.hpp"

#include "apps/cli/option_values.hpp"

namespace ddprun {
namespace {

std::vector<std::string> words_of(const CLI::Option& option) {
    std::vector<std::string> words;
    for (const std::string& name : option.get_lnames()) words.push_back("--" + name);
    for (const std::string& name : option.get_snames()) words.push_back("-" + name);
    return words;
}

// The names of the options with a value in the next word, or of all.
std::string completed_names(const CLI::App& app, bool with_value, const std::string& between) {
    std::string names;
    for (const CLI::Option* option : app.get_options()) {
        const bool takes_next = option->get_items_expected_min() > 0;
        if (option->get_group().empty() || option->get_positional() || (with_value && !takes_next)) continue;
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
        commands += "        " + command->get_name() + ") options=\"" +
                    completed_names(*command, false, " ") + "\"; commands= ;;\n";
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
    text = replaced(text, "OPTIONS", completed_names(app, false, " "));
    text = replaced(text, "COMMANDS", names);
    text = replaced(text, "VALUED", completed_names(app, true, "|"));
    if (starts_programs(app)) {
        commands = R"(        *)
            [[ $(type -t _command_offset) == function ]] && _command_offset "$at"
            return
            ;;
)";
    }
    text = replaced(text, "CASES", commands);
    return replaced(text, "NAME", app.get_name());
}

// In single quotes of a shell.
std::string shell_quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::string short_text(const CLI::Option& option) {
    return option.get_description().substr(0, option.get_description().find('\n'));
}

std::string zsh_arguments(const CLI::App& app, const std::string& indent) {
    std::string text = indent + "_arguments -S";
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_group().empty() || option->get_positional()) continue;
        for (const std::string& word : words_of(*option)) {
            const bool is_long = word.starts_with("--");
            std::string spec = "*" + word;
            if (option->get_items_expected_min() > 0) spec += is_long ? "=" : "+";
            spec += "[" + replaced(replaced(short_text(*option), "[", "("), "]", ")") + "]";
            if (option->get_items_expected_min() > 0)
                spec += ":" + replaced(option->get_type_name(), ":", "\\:") + ":_files";
            text += " \\\n" + indent + "    " + shell_quoted(spec);
        }
    }
    return text + " \\\n" + indent + (starts_programs(app) ? "    '*::: :_normal'" : "    '*: :_files'");
}

std::string zsh_completion(const CLI::App& app) {
    const std::string& name = app.get_name();
    std::string text = "#compdef " + name + "\n_" + name + "() {\n";
    std::string commands;
    std::string cases;
    for (const CLI::App* command : app.get_subcommands({})) {
        commands += " " + shell_quoted(command->get_name() + ":" + command->get_description());
        cases += "        " + command->get_name() + ")\n" + zsh_arguments(*command, "            ") + " ;;\n";
    }
    const std::string end = "}\n_" + name + " \"$@\"\n";
    if (commands.empty()) return text + zsh_arguments(app, "    ") + "\n" + end;
    return text + "    local -a commands=(" + commands + ")\n    if ((CURRENT == 2)); then\n        " +
           "_describe command commands\n" + zsh_arguments(app, "        ") +
           "\n    else\n        local command=$words[2]\n        shift words\n        ((CURRENT--))\n" +
           "        case $command in\n" + cases + "        esac\n    fi\n" + end;
}

std::string fish_lines(const CLI::App& app, const std::string& head) {
    std::string text;
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_group().empty() || option->get_positional()) continue;
        text += head;
        for (const std::string& name : option->get_snames()) text += " -s " + name;
        for (const std::string& name : option->get_lnames()) text += " -l " + name;
        if (option->get_items_expected_min() > 0) text += " -r";
        text += " -d " + shell_quoted(replaced(short_text(*option), "\\", "\\\\")) + "\n";
    }
    return text;
}

std::string fish_completion(const CLI::App& app) {
    std::string text = fish_lines(app, "complete -c " + app.get_name());
    for (const CLI::App* command : app.get_subcommands({})) {
        text += "complete -c " + app.get_name() + " -n __fish_use_subcommand -f -a " + command->get_name() +
                " -d " + shell_quoted(command->get_description()) + "\n" +
                fish_lines(*command, "complete -c " + app.get_name() + " -n '__fish_seen_subcommand_from " +
                                         command->get_name() + "'");
    }
    return text;
}

}  // namespace

std::string replaced(std::string text, const std::string& what, const std::string& with) {
    for (auto at = text.find(what); at != text.npos; at = text.find(what, at + with.size()))
        text.replace(at, what.size(), with);
    return text;
}

std::string completion(const CLI::App& app, const std::string& shell) {
    if (shell == "bash") return bash_completion(app);
    if (shell == "zsh") return zsh_completion(app);
    if (shell == "fish") return fish_completion(app);
    throw BadValue("must be bash, zsh or fish");
}

}  // namespace ddprun
