// A relay: the process of ddprun beside the agent on each host of a job that was started by --hosts. It takes a plan from its
// standard input, starts the agent and the relays behind it, and passes on what all of them say.
//
//   stdin   frames down: the plan, when to begin, signals; its end is the end of whoever started the relay
//   stdout  frames up: the agents' output, whole lines; how they ended
//   stderr  its own troubles
//
// SIGTERM and SIGINT, which a scheduler sends to all processes of a job, are the agent's: the relay stays until that has ended.
//
// When its standard input ends it ends itself at once: the remote shells that it has started die with it, and its agent, which
// notices by its line, does what its place in the job asks for (started_agent.hpp).
#pragma once

#include <string>
#include <vector>

namespace ddprun::inline launch {

// `words` behind the flag: the build that is asked for, and the folder that is to be removed, if the program came with it.
// Returns the exit code; kExitOtherBuild without having read anything.
int run_relay(const std::vector<std::string>& words);

}  // namespace ddprun::inline launch
