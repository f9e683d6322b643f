// From the command line and this machine to what the agent carries out.
//
// resolve_launch decides and is pure; NodeFacts holds what it needs to know of the machine and is filled in
// by main.
#pragma once

#include "apps/ddprun/command_line.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/plan/device_binding.hpp"

namespace ddprun {

struct NodeFacts {
    std::chrono::steady_clock::time_point start;  // when this launcher began to look
    Environment environment;
    std::string host_name;
    NodeDevices devices;
    int usable_cpus = 1;
    bool hangup_ignored = false;
    bool terminal_stop_ignored = false;
    std::vector<LocalAddress> addresses;
    // What --master-addr stands for here; nothing where this is not asked for (not node 0, or not given).
    std::optional<std::variant<std::vector<std::string>, std::string>> master;
    // Likewise --local-addr, if it is given.
    std::optional<std::variant<std::vector<std::string>, std::string>> local;
    std::string fresh_id;  // of no other launch
    bool stdin_is_terminal = false;
    bool program_is_pythons = false;  // see program_file.hpp
    std::string
        venv_python;     // where this launcher took torchrun's place in a virtual environment, its python3
    std::string python;  // the file that runs Python programs, as found on PATH; empty: not found
    std::string on_failure;   // the file that --on-failure names, likewise
    bool other_venv = false;  // VIRTUAL_ENV is set, and that file is not of it
};

// Reads the machine; on node 0 resolves --master-addr, which may take as long as the resolver's limits. `called` is
// the launcher's own name as a shell would look for it.
NodeFacts find_node_facts(const CommandLine& line, const std::string& called);

// Throws UsageError for what does not fit this machine: `gpu` without a GPU, more workers than GPUs, a
// --master-addr on node 0 that is none of its addresses, ranks that the job of one node does not have; and
// for one of several tasks of srun or mpirun without a word about nodes.
LaunchOptions resolve_launch(const CommandLine& line, const NodeFacts& facts);

}  // namespace ddprun
