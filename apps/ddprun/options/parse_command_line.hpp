// Parses the command line of ddprun, its variables and its configuration file: words in, a CommandLine out. Pure but
// for reading that file.
//
// The options are torchrun's and ddprun's own, with dashes or underscores; one whose value is empty, also by its variable,
// counts as not given. Everything from the program's name on is the program's and is passed on byte for byte, but for
// one "--" (see launcher_words.hpp).
#pragma once

#include <string>
#include <vector>

#include "apps/ddprun/options/command_line.hpp"

namespace ddprun::inline app {

// An error, or a remark, that begins with an option, as the user has said that one: --rdzv_endpoint where it is of
// --master-addr and the address is the endpoint's.
std::string as_said(const CommandLine& line, const std::string& message);

// Throws UsageError for a number that is none of the job's nodes. Where the user says nothing of their count, the cluster may
// (cluster_plan.hpp).
void check_node_rank(const CommandLine& line);

// Fills in %r in the paths of the line, once the number of the node is as it will be. Throws UsageError where it has none yet.
void fill_node_rank(CommandLine& line);

// `words` without the launcher's own name, which is `called`: without folders. Throws UsageError.
CommandLine parse_command_line(const std::vector<std::string>& words, const Environment& environment,
                               const std::string& called = "ddprun");

}  // namespace ddprun::inline app
