// NodeFacts are what the launch plan needs to know of this machine.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/ddprun/plan/job_plan.hpp"
#include "launcher/cluster/family.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/plan/cpu_binding.hpp"
#include "launcher/plan/program.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace app {

struct NodeFacts {
    std::chrono::steady_clock::time_point start;  // when this launcher began to look …
    std::int64_t start_unix_s = 0;                // … and by the wall clock
    Environment environment;
    std::string host_name;
    NodeHardware hardware;
    bool hangup_ignored = false;
    bool terminal_stop_ignored = false;
    std::vector<LocalAddress> addresses;
    // master: the addresses that --master-addr stands for here; nothing where this is not asked for (not node
    // 0, or not given).
    std::optional<std::variant<std::vector<std::string>, std::string>> master;
    // local: the addresses behind --local-addr, if it is given, or why there are none.
    std::optional<std::variant<std::vector<std::string>, std::string>> local;
    std::chrono::milliseconds join_spent{0};  // of --join-timeout, on `master` and `local`
    RankOrder rank_order;                     // as --rank-order has it
    std::string fresh_id;                     // of no other launch
    bool stdin_is_terminal = false;
    std::map<std::string, ProgramFile> files;  // by the names of the programs
    std::vector<std::string> neighbours;       // what lies where the first program should, if it does not
    std::string own_python;    // the python3 of the environment that this launcher, or its starter, lies in
    std::string other_python;  // says that PATH has another one, or that this one is lost
    std::string python;        // the file that runs Python programs; empty: not found
    std::optional<ProgramFault> python_fault;  // why no such file is found
    std::string python_instead;   // what can be written for a first program that is not found; or empty
    std::string python_of_words;  // says that the first program is another Python than the launcher's own
    std::string on_failure;       // the file that --on-failure names, as found on PATH
    bool other_venv = false;      // VIRTUAL_ENV is set, and `python` is not of it

    std::optional<std::string> variable(const std::string& name) const;  // of the environment
};

// Returns $PYTHON_EXEC, or else the python3 of the launcher's own environment.
std::optional<std::string> python_exec_of(const NodeFacts& facts);

// Returns whether this process was entered with the signal ignored.
bool is_ignored(int signal);

// Reads the machine and the files that options name (UsageError). On node 0 resolves --master-addr, which may
// take the resolver's limit, or half of --join-timeout.
NodeFacts find_node_facts(const JobPlan& job);

// Reads the cluster's view: the files that the environment names, small ones, each read once. Throws
// system_error where the machine does not tell its addresses.
ClusterView find_cluster_view(Environment environment);

}  // namespace app
}  // namespace ddprun
