// The options of ddprun, one row each, with default, scope and text. To add one: a row, a member of LaunchOptions (or of
// CommandLine, if the agent has no use for it), and the code that uses it. --help, the manual, the tables of the READMEs,
// shell completion and --explain are printed from the rows.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "apps/cli/option_row.hpp"
#include "apps/ddprun/options/command_line.hpp"

namespace ddprun::inline app {

// Marks of rows (OptionRow::marks). The option says which nodes there are, how they are reached and how they find each other:
// doctor takes it, too.
inline constexpr unsigned kFindsNodes = kOwnMark;
// The option is for the process that starts a job on several hosts, and not for the agents that it starts.
inline constexpr unsigned kForStarter = 2 * kOwnMark;

// The rows put their values into `line`, which has to outlive them. Their defaults are those of `line` as it is now; what
// they show (--explain) is what is in `line` then.
std::vector<OptionGroup> option_rows(CommandLine& line);

// These are their two halves: the job's nodes and how they find each other (the configuration file first), and its workers.
std::vector<OptionGroup> job_options(CommandLine& line);
std::vector<OptionGroup> worker_options(CommandLine& line);

// For OptionRow::set: a whole number of seconds, at least `least`.
std::function<void(const std::string&)> seconds_into(std::chrono::milliseconds& target, int least = 0);

// For defaults: "900".
std::string whole_seconds(std::chrono::milliseconds time);
// For --explain: "0.5 s".
std::string seconds_text(std::chrono::milliseconds time);

// The launcher's words without those that only the starter of a job on several hosts has a use for (kForStarter).
std::vector<std::string> without_start_words(const std::vector<std::string>& words,
                                             const std::vector<OptionGroup>& groups);

}  // namespace ddprun::inline app
