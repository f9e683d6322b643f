// From the command line and this machine to what the agent carries out.
//
// resolve_launch decides and is pure; NodeFacts holds what it needs to know of the machine and is filled in
// by main.
#pragma once

#include "apps/ddprun/command_line.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/plan/node_placement.hpp"

namespace ddprun {

struct NodeFacts {
    std::chrono::steady_clock::time_point start;  // when this launcher began to look
    Environment environment;
    std::string host_name;
    NodeHardware hardware;
    bool hangup_ignored = false;
    bool terminal_stop_ignored = false;
    std::vector<LocalAddress> addresses;
    // What --master-addr stands for here; nothing where this is not asked for (not node 0, or not given).
    std::optional<std::variant<std::vector<std::string>, std::string>> master;
    std::string python;       // the file that runs Python programs, as found on PATH; empty: not found
    std::string on_failure;   // the file that --on-failure names, likewise
    bool other_venv = false;  // VIRTUAL_ENV is set, and that file is not of it
};

// Reads the machine; on node 0 resolves --master-addr, which may take as long as the resolver's limits.
NodeFacts find_node_facts(const CommandLine& line);

// Throws UsageError for what does not fit this machine: `gpu` without a GPU, more workers than GPUs, a
// --master-addr on node 0 that is none of its addresses, ranks that the job of one node does not have; and
// for one of several tasks of srun or mpirun without a word about nodes.
LaunchOptions resolve_launch(const CommandLine& line, const NodeFacts& facts);

}  // namespace ddprun
