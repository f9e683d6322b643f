// parse_command_line() makes of the words, the variables and the configuration file what they say (Said).
// Pure but for reading the files that options name.
//
// The options are torchrun's and ddprun's own, with dashes or underscores. An option with an empty value,
// also by its variable, counts as not given. Everything from the program's name on is the program's and is
// passed on byte for byte, but for one "--" (see launcher_words.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ddprun/options/said.hpp"

namespace ddprun {
inline namespace app {

// kTorchrunName and the next: the names by which the launcher is called, with a meaning of their own.
inline constexpr const char* kTorchrunName = "torchrun";           // as with --like-torchrun
inline constexpr const char* kLegacyLaunchName = "ddprun-launch";  // as with --legacy-launch

// kThisProgram is the program of a job that runs doctor as its workers, wherever the file lies, or has lain:
// what a relay has shipped is removed by then.
inline constexpr const char* kThisProgram = "/proc/self/exe";
inline constexpr std::string_view kDoctorWord = "doctor";
// kNodeRoleFlag: the first word behind `doctor` where a node plays its part; users do not write it.
inline constexpr std::string_view kNodeRoleFlag = "--as-node";
// kExitProblem: the exit code of `ddprun doctor` where it has found a problem; otherwise 0, or kExitUsage.
inline constexpr int kExitProblem = 1;
// Returns true for the launch of a job that runs doctor as its workers, also on a node that a relay has
// started. Pure.
bool is_doctors_job(const std::vector<std::string>& program);

// Throws UsageError where the program looks like a further host of --hosts, written behind a blank. Adds
// remarks about options of this launcher that stand behind a script (habits.cpp).
void look_at_program_words(Said& line);
// Returns the error that says how several hosts are written, for a program that looks like one of them.
std::string parted_hosts(const Said& line);

// Returns what to type for a program that is not there, where a shell would have understood it: FOO=1, cd, or
// several words in one. For the end of the error; empty: nothing of that kind.
std::string meant_for_shell(const std::string& name);

// Parses `words`, without the launcher's own name, which is `called`, without folders. An option from a
// weaker place is passed over for one that excludes it (exclusions.hpp). `files` have what was read before.
// An agent that a `starter` has started reads nothing about hosts. Throws UsageError.
Said parse_command_line(const std::vector<std::string>& words, const Environment& environment,
                        const std::string& called = "ddprun", const ToldFiles& files = {},
                        const std::optional<Starter>& starter = {});

}  // namespace app
}  // namespace ddprun
