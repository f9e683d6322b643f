// From the command line and this machine to what the agent carries out.
//
// resolve_launch decides and is pure; NodeFacts holds what it needs to know of the machine and is filled in
// by main.
#pragma once

#include "apps/ddprun/command_line.hpp"
#include "launcher/device_binding.hpp"
#include "launcher/launch_options.hpp"

namespace ddprun {

struct NodeFacts {
    Environment environment;
    NodeDevices devices;
    int usable_cpus = 1;
    bool hangup_ignored = false;
    bool terminal_stop_ignored = false;
};

// Reads the machine.
NodeFacts find_node_facts();

// Throws UsageError for what does not fit this machine: `gpu` without a GPU, more workers than GPUs.
LaunchOptions resolve_launch(const CommandLine& line, const NodeFacts& facts);

}  // namespace ddprun
