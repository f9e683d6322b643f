// resolve_start() turns the plan of a job with --hosts, or in an allocation, into what the starter of the job
// carries out. start_line() says what such a start means to an agent.
#pragma once

#include <set>
#include <string>

#include "apps/ddprun/plan/job_plan.hpp"
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
StarterFacts find_starter_facts(const JobPlan& job, const std::string& secret);

// Resolves the start. Pure but for the job's key, which is made here. Throws UsageError: options that
// contradict --hosts, lists that are wrong, an address of node 0 that no other host could reach.
StarterOptions resolve_start(const JobPlan& job, const StarterFacts& facts);

// Returns for messages what names the hosts: an option, or the variable of an allocation.
std::string hosts_flag(const JobPlan& job);

// Returns, in words, what was decided without being asked for; empty with --hosts.
std::string start_line(const JobPlan& job, const StarterOptions& options);

}  // namespace app
}  // namespace ddprun
