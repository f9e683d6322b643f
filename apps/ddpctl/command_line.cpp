#include "apps/ddpctl/command_line.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/cli/option_row.hpp"
#include "apps/cli/print.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace app {
namespace {

// In the order of --help.
constexpr std::unique_ptr<Command> (*kCommands[])() = {
    make_list_command,   make_status_command, make_logs_command, make_events_command,
    make_stacks_command, make_attach_command, make_kill_command,
};

// Habit: what other programs call a command, and what it is here.
struct Habit {
    std::string_view word;
    std::string_view meant;
};

constexpr Habit kHabits[] = {
    {"ps", "list"},
    {"ls", "list"},
    {"get", "list"},
    {"jobs", "list"},
    {"stop", "kill ID"},
    {"cancel", "kill ID"},
    {"rm", "kill ID"},
    {"delete", "kill ID"},
    {"show", "status ID"},
    {"inspect", "status ID"},
    {"info", "status ID"},
    {"describe", "status ID"},
    {"tail", "logs -n 10 ID"},
    {"follow", "logs -f ID"},
    {"wait", "attach ID"},
};

// CLI11 would only say that some subcommand is required.
void check_command(const CLI::App& app, const std::string& word) {
    for (const Habit& habit : kHabits) {
        if (habit.word == word)
            throw UsageError(fmt::format("{}: no such command; type 'ddpctl {}'", word, habit.meant));
    }
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    if (word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end()) return;
    throw UsageError(
        fmt::format("{}: no such command{}", word, did_you_mean(word, names, "; see ddpctl --help")));
}

// Takes `help logs` as `logs --help`, and `kill -9` as `kill --signal=9`.
void take_habits(std::vector<std::string>& words) {
    if (words.empty()) return;
    if (words.front() == "help") {
        words.erase(words.begin());
        words.emplace_back("--help");
    }
    if (words.front() != "kill") return;
    for (std::string& word : words) {
        if (word == "--") return;
        if (word.starts_with('-') && parse_signal(word.substr(1))) word = "--signal=" + word.substr(1);
    }
}

}  // namespace

std::variant<std::unique_ptr<Command>, std::string> parse_control_command(std::vector<std::string> words) {
    CLI::App app("Lists, shows, follows and ends the jobs of this user on this node.", "ddpctl");
    add_standard_options(app, DDPRUN_VERSION);
    std::vector<std::pair<std::unique_ptr<Command>, std::vector<OptionGroup>>> commands;
    for (const auto make : kCommands) {
        auto command = make();
        std::vector<OptionGroup> groups{{"", command->rows()}};
        add_rows(*app.add_subcommand(command->name(), command->help()), groups);
        commands.emplace_back(std::move(command), std::move(groups));
    }
    app.require_subcommand(1);
    take_habits(words);
    if (!words.empty()) check_command(app, words.front());
    if (auto text = parse_words(app, {}, std::move(words))) return *std::move(text);
    const auto given = std::find_if(commands.begin(), commands.end(), [&app](const auto& command) {
        return app.got_subcommand(command.first->name());
    });
    check(given != commands.end(), "a command that no row has");
    take_values(*app.get_subcommand(given->first->name()), given->second);
    return std::move(given->first);
}

}  // namespace app
}  // namespace ddprun
