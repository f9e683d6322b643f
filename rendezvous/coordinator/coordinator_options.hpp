// CoordinatorOptions: what node 0's user and its agent say of a job before it begins. The four values of the
// coordinator (Roster, Round, Aftermath, Leadership) share one copy, which never changes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/coordinator/admission.hpp"
#include "rendezvous/coordinator/job_options.hpp"
#include "rendezvous/membership/member_list.hpp"

namespace ddprun {
inline namespace job {

struct CoordinatorOptions {
    std::string version;
    std::string run_id = "none";
    std::string job_id;
    std::int64_t start_unix_s = 0;  // of the job
    int nnodes = 1;
    Elasticity elasticity;
    std::chrono::milliseconds join_timeout = kDefaultJoinTimeout;
    std::chrono::milliseconds join_spent{0};  // how much of join_timeout was over when the coordinator began
    std::chrono::milliseconds heartbeat{0};   // the limit of silence; 0: silence is no sign of a loss
    RestartOptions restarts;
    unsigned jitter_seed = 0;  // of the pauses between rounds
    std::optional<ExitWaitOptions> exit_wait;
    bool asks_about_failures = false;  // a program of the user's, by way of the host's own agent
    // own_agent: the Hello that node 0's own agent will say. Other agents may come before it, but none may
    // take its place or decide what the job runs.
    std::optional<Hello> own_agent;
    // hosts: the hosts of the job in the list that its own agent knows; where nodes are numbered, in that
    // order. Empty: there is no list.
    std::vector<std::string> hosts;
    bool strict_env = false;  // refuse a job of nodes that differ, and a node that differs and comes later
    // failover: another coordinator may take over from this one. A coordinator that takes over has a
    // `predecessor`.
    bool failover = false;
    // through_doors: workers reach the store by way of their own agents.
    bool through_doors = false;
    std::optional<MemberList> predecessor;
    // records_rounds: a register outside the job, to which wish() is carried, decides which coordinator leads
    // the job next. No quorum is needed then. A round without a member of the last one that may live does not
    // begin before it is recorded (quorum.hpp).
    bool records_rounds = false;

    // Returns the least number of nodes with which the job begins or goes on.
    int least() const { return elasticity.least(nnodes); }
    // Returns how many nodes may run at the same time.
    int seats() const { return elasticity.seats(nnodes); }
    // Returns whether a node that is lost can be replaced.
    bool places_change() const { return elasticity.is_elastic() || restarts.max_restarts > 0; }
    // Returns whether another coordinator may take over. Never in a job of a single node, nor in one that
    // every loss ends.
    bool may_fail_over() const { return failover && heartbeat.count() > 0 && nnodes > 1 && places_change(); }
    bool records() const { return records_rounds && may_fail_over(); }

    bool is_own(const Hello& hello) const { return own_agent && is_same_agent(*own_agent, hello); }
    bool is_host(const Hello& hello) const { return own_agent ? is_own(hello) : hello.node_rank == 0; }
    JobTerms terms() const { return {version, run_id, nnodes, elasticity.min_nodes.value_or(0)}; }
};

using SharedOptions = std::shared_ptr<const CoordinatorOptions>;

}  // namespace job
}  // namespace ddprun
