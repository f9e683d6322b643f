// option_rows() are the options of ddprun, one row each, with default, scope and text. To add one: a row, a
// member of LaunchOptions (or of Said, if the agent has no use for it), and the code that uses it.
// --help, the manual, the tables of the READMEs and shell completion are printed from the rows.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "apps/cli/option_row.hpp"
#include "apps/ddprun/options/said.hpp"

namespace ddprun {
inline namespace app {

// kFindsNodes marks a row (OptionRow::marks): the option says which nodes there are, how they are reached and
// how they find each other, so that doctor takes it, too.
inline constexpr unsigned kFindsNodes = kOwnMark;
// kForStarter marks a row: the option is for the process that starts a job on several hosts, and not for the
// agents that it starts.
inline constexpr unsigned kForStarter = 2 * kOwnMark;

// Returns the rows, which put their values into `line`; `line` has to outlive them. The defaults are those of
// `line` as it is now.
std::vector<OptionGroup> option_rows(Said& line);
// Returns the second half of the rows: the workers', behind the job's nodes and how they find each other.
std::vector<OptionGroup> worker_options(Said& line);

// Makes a setter (OptionRow::set) of a whole number of seconds, at least `least`.
std::function<void(const std::string&)> seconds_into(std::chrono::milliseconds& target, int least = 0);

// Writes a time as defaults show it, "900".
std::string whole_seconds(std::chrono::milliseconds time);

// Returns the launcher's words without those that only the starter of a job on several hosts has a use for
// (kForStarter).
std::vector<std::string> without_start_words(const std::vector<std::string>& words,
                                             const std::vector<OptionGroup>& groups);

}  // namespace app
}  // namespace ddprun
