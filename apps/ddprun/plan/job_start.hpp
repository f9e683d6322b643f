// resolve_start() turns a command line with --hosts, or in an allocation, into what the starter of the job
// carries out. start_line() and become_started() say what such a start means to an agent.
#pragma once

#include <set>
#include <string>

#include "apps/ddprun/options/command_line.hpp"
#include "launcher/start/starter.hpp"

namespace ddprun {
inline namespace app {

// StarterFacts are what the starter has to know of its machine.
struct StarterFacts {
    Environment environment;
    std::string directory;
    std::string python;                          // own_python()
    std::vector<std::uint32_t> launcher_owners;  // StartPlan's
    FileOwners owners;                           // StartPlan's
    std::string host_name;
    std::string one_of_several;       // cluster_table.hpp's; empty also at a terminal
    std::set<std::string> addresses;  // of this machine
    std::string host_file_text;       // of --hostfile
    Environment read_options;         // StartPlan's
    bool hangup_ignored = false;
    bool may_be_host =
        false;  // what stands behind one host of --hosts: no file and no command here has that plain name
    bool seals_store = false;         // the user or the site wants a sealed store: wants_sealed_store()
    std::vector<std::string> shells;  // the site's, SitePolicy's
};

// Reads the facts; `secret`: what DDPRUN_SECRET held. Throws UsageError for a file of hosts that cannot be
// read.
StarterFacts find_starter_facts(const CommandLine& line, const std::string& secret);

// Resolves the start. Pure but for the job's key, which is made here. Throws UsageError: options that
// contradict --hosts, lists that are wrong, an address of node 0 that no other host could reach.
StarterOptions resolve_start(const CommandLine& line, const StarterFacts& facts);

// Returns for messages what names the hosts: an option, or the variable of an allocation.
std::string hosts_flag(const CommandLine& line);

// Returns, in words, what was decided without being asked for; empty with --hosts.
std::string start_line(const CommandLine& line, const StarterOptions& options);

// Makes this agent one that a relay has started: hosts are no matter of its own, node 0 takes a free port,
// and the others say only what goes wrong. `slots` are StartNode's, `hosts` all nodes' names, as node 0's
// agent is told them.
void become_started(CommandLine& line, int slots, const std::string& hosts);

}  // namespace app
}  // namespace ddprun
