// resolve_launch() makes of the command line and this machine what the agent carries out: the one plan of a
// launch. The launch itself, --dry-run, --explain and --adapt all go by it. Pure; NodeFacts holds what it
// needs to know of the machine.
#pragma once

#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/node_facts.hpp"
#include "launcher/path_template.hpp"

namespace ddprun {
inline namespace app {

// Returns LaunchOptions as the agent gets them; the rest of the line is as it was said. Throws UsageError for
// what does not fit this machine: `gpu` without a GPU, more workers than GPUs, a --master-addr on node 0 that
// is none of its addresses. Also for ranks that a job of one node does not have.
CommandLine resolve_launch(const CommandLine& line, const NodeFacts& facts);

// Returns why the first program that cannot be started cannot, with its name and with what may have been
// meant.
std::optional<ProgramFault> program_fault(const CommandLine& line, const NodeFacts& facts);

// Returns the facts for paths that are opened before any round has begun.
PathFacts path_facts_of(const CommandLine& line, const NodeFacts& facts);

}  // namespace app
}  // namespace ddprun
