// run_starter: starts a job's agents on its hosts and brings all that they say to this terminal, until the last one has ended.
//
// The root of the tree of relays, on main's thread. Signals that end the job go to all agents, as from a scheduler; others to
// node 0's, which passes them on to every worker.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/start/start_ledger.hpp"
#include "launcher/start/start_message.hpp"

namespace ddprun::inline launch {

struct StarterOptions {
    StartPlan plan;  // all nodes, in their order
    StartTerms terms;
    std::vector<int> ending_signals;
    std::vector<int> forwarded_signals;
    std::chrono::milliseconds grace_period{0};
};

// Returns the exit code of the job; kExitSystem where a host could not be started, after a line for each.
int run_starter(const StarterOptions& options);

}  // namespace ddprun::inline launch
