#include "apps/ddpctl/command_line.hpp"

#include <fmt/core.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/cli/option_row.hpp"
#include "apps/cli/print.hpp"

namespace ddprun::inline app {
namespace {

// CLI11 fills these in, for all commands.
struct Values {
    std::string id;
    int signal = SIGTERM;
    std::optional<std::uint64_t> tail;
    bool json = false;
    bool follow = false;
    bool no_wait = false;
};

// A Command is a name and its rows.
struct Command {
    const char* name;
    const char* help;
    std::vector<OptionGroup> groups;
};

std::vector<Command> commands_of(Values& values) {
    const OptionRow id{"ID", "", "The job's id, or the beginning of one that no other id has",
                       into(values.id)};
    const auto json = [&values](const char* help) {
        return OptionRow{"--json", "", help, into(values.json)};
    };
    return {
        {"list",
         "List the jobs: running, and the last detached ones that ended",
         {{"", {json("As a JSON array of what status --json shows")}}}},
        {"status",
         "Show the workers' pids, restarts and how the job ended",
         {{"", {id, json("As one JSON object")}}}},
        {"logs",
         "Print what a detached job has printed",
         {{"",
           {id,
            {"--follow,-f", "", "Go on until the job ends", into(values.follow)},
            {"--tail", "N", "Only the last N lines", into(values.tail, number(0, 1'000'000'000))}}}}},
        {"attach",
         "Print the last lines, follow the job to its end and exit with its code; Ctrl-C leaves it running",
         {{"", {id}}}},
        {"kill",
         "End the job, with its grace, and wait for its end",
         {{"",
           {id,
            {"--signal", "NAME", "The signal that its launcher gets (TERM)", into(values.signal, signal_of)},
            {"--no-wait", "", "Return at once", into(values.no_wait)}}}}},
    };
}

// CLI11 would only say that some subcommand is required.
void check_command(const CLI::App& app, const std::string& word) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    if (word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end()) return;
    throw UsageError(
        fmt::format("{}: no such command{}", word, did_you_mean(word, names, "; see ddpctl --help")));
}

}  // namespace

ControlCommand parse_control_command(std::vector<std::string> words) {
    CLI::App app(
        "Lists and ends the jobs of this user on this node, and follows those that ddprun --detach started.",
        "ddpctl");
    add_standard_options(app, DDPRUN_VERSION);
    Values values;
    const std::vector<Command> commands = commands_of(values);
    for (const Command& command : commands)
        add_rows(*app.add_subcommand(command.name, command.help), command.groups);
    app.require_subcommand(1);
    if (!words.empty()) check_command(app, words.front());
    if (auto text = parse_words(app, {}, std::move(words))) return ShowCommand{*std::move(text)};
    for (const Command& command : commands) {
        if (app.got_subcommand(command.name)) take_values(*app.get_subcommand(command.name), command.groups);
    }
    if (app.got_subcommand("list")) return ListCommand{values.json};
    if (app.got_subcommand("status")) return StatusCommand{values.id, values.json};
    if (app.got_subcommand("logs")) return LogsCommand{values.id, values.follow, values.tail};
    if (app.got_subcommand("attach")) return AttachCommand{values.id};
    return KillCommand{values.id, values.signal, !values.no_wait};
}

}  // namespace ddprun::inline app
