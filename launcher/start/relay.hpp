// run_relay is the relay: the process of ddprun beside the agent on each host of a job that was started by
// --hosts. The relay takes a plan from its standard input, starts the agent and the relays behind it, and
// passes on what all of them say.
//
//   stdin   frames down: the plan, when to begin, signals; its end is the end of what started the relay
//   stdout  frames up: the agents' output, whole lines; how they ended
//   stderr  its own troubles
//
// SIGTERM, which a scheduler sends to all processes of a job, goes on to the agent, and the relay stays until
// the agent has ended. SIGINT is passed over: the starter tells the agents.
//
// The relay ends at once when its standard input ends. The remote shells that it has started die with it. The
// agent notices by its line, and does what its place in the job asks for
// (features/started_agent.hpp).
#pragma once

#include <string>
#include <vector>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

// kStartedVariable: StartNode's slots, set for an agent that a relay starts, besides the line.
inline constexpr const char* kStartedVariable = "DDPRUN_STARTED";

// kStartedHostsVariable: the names of all hosts, separated by commas, set for node 0's agent unless longer
// than kMaxStartedHosts bytes. (One variable may have twice as many.)
inline constexpr const char* kStartedHostsVariable = "DDPRUN_STARTED_HOSTS";
inline constexpr std::size_t kMaxStartedHosts = 64 * 1024;

// kStartedPythonVariable: StartPlan's python, set for an agent where that file is there.
inline constexpr const char* kStartedPythonVariable = "DDPRUN_STARTED_PYTHON";

// kStartedProgramVariable: a file of the relay's in which its agent finds StartPlan's read_program.
inline constexpr const char* kStartedProgramVariable = "DDPRUN_STARTED_PROGRAM";

// kStartedRunVariable: StartPlan's run_record, set for an agent unless longer than kMaxStartedRun bytes.
inline constexpr const char* kStartedRunVariable = "DDPRUN_STARTED_RUN";
inline constexpr std::size_t kMaxStartedRun = 120 * 1024;

// Takes the line from the standard input, which becomes /dev/null. Called first of all by a started agent.
OwnedDescriptor take_relay_line();

// Runs a relay. `words` behind the flag: the build that is asked for, and the folder that is to be removed,
// if the program came with it. Returns the exit code; kExitOtherBuild without having read anything.
int run_relay(const std::vector<std::string>& words);

}  // namespace launch
}  // namespace ddprun
