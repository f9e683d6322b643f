#include "apps/ddpctl/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/ddprun/option_values.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
namespace {

// What CLI11 fills in, for all commands.
struct Values {
    std::string id;
    std::string signal = "TERM";
    std::string tail;
    bool json = false;
    bool follow = false;
    bool no_wait = false;
};

CLI::App* add_command(CLI::App& app, Values& values, const char* name, const char* help) {
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("ID", values.id, "The job's id, or the beginning of one that no other id has")
        ->required();
    return command;
}

void add_commands(CLI::App& app, Values& values) {
    app.set_help_flag("-h,--help", "Show this text and exit");
    app.set_version_flag("--version", "ddpctl " DDPRUN_VERSION, "Show the version and exit");
    app.add_subcommand("list", "List the jobs: running, and the last that ended")
        ->add_flag("--json", values.json, "As a JSON array of what 'status --json' shows");
    add_command(app, values, "status", "Show the workers' pids, restarts and how the job ended")
        ->add_flag("--json", values.json, "As one JSON object");
    CLI::App* logs = add_command(app, values, "logs", "Print what the job has printed");
    logs->add_flag("-f,--follow", values.follow, "Go on until the job ends");
    logs->add_option("--tail", values.tail, "Only the last N lines")->type_name("N");
    add_command(app, values, "attach",
                "Print the last lines, follow the job to its end and exit with its code; Ctrl-C leaves it "
                "running");
    CLI::App* kill = add_command(app, values, "kill", "End the job, with its grace, and wait for its end");
    kill->add_option("--signal", values.signal, "The signal that its launcher gets (TERM)")
        ->type_name("NAME");
    kill->add_flag("--no-wait", values.no_wait, "Return at once");
    app.require_subcommand(1);
}

std::optional<std::uint64_t> tail_of(const std::string& text) {
    if (text.empty()) return std::nullopt;
    return static_cast<std::uint64_t>(bounded("--tail", text, 0, 1'000'000'000));
}

// CLI11 would only say that some subcommand is required.
void check_command(const CLI::App& app, const std::string& word) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    if (word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end()) return;
    const auto meant = nearest(word, names);
    throw UsageError(word + ": no such command" +
                     (meant ? "; did you mean " + *meant + "?" : "; see ddpctl --help"));
}

}  // namespace

ControlCommand parse_control_command(std::vector<std::string> words) {
    CLI::App app("Lists, follows and ends the jobs that ddprun --detach started, of this user on this node.",
                 "ddpctl");
    Values values;
    add_commands(app, values);
    if (!words.empty()) check_command(app, words.front());
    std::reverse(words.begin(), words.end());  // CLI11 takes a vector from its back.
    try {
        app.parse(std::move(words));
    } catch (const CLI::CallForHelp&) {
        return ShowCommand{app.help()};
    } catch (const CLI::CallForVersion& version) {
        return ShowCommand{std::string(version.what()) + "\n"};
    } catch (const CLI::ParseError& error) {
        throw UsageError(std::string(error.what()) + "; see ddpctl --help");
    }
    if (app.got_subcommand("list")) return ListCommand{values.json};
    if (app.got_subcommand("status")) return StatusCommand{values.id, values.json};
    if (app.got_subcommand("logs")) return LogsCommand{values.id, values.follow, tail_of(values.tail)};
    if (app.got_subcommand("attach")) return AttachCommand{values.id};
    const auto signal = parse_signal(values.signal);
    if (!signal) throw UsageError("--signal " + values.signal + ": no such signal");
    return KillCommand{values.id, *signal, !values.no_wait};
}

}  // namespace ddprun
