// Admission: whether an agent may take part in a job, from what it says of itself. Pure; the Coordinator
// asks.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/coordinator/job_summary.hpp"

namespace ddprun::inline job {

// JobTerms are what node 0 was told of the job.
struct JobTerms {
    std::string version;
    std::string run_id;
    int nnodes = 1;  // as in Hello, like the next
    int min_nodes = 0;
};

// Company is who is there already, as far as it matters to a newcomer; nullptr stands for nobody.
struct Company {
    const Hello* holder = nullptr;     // of the newcomer's node number
    const Hello* companion = nullptr;  // the lowest node with workers of the newcomer's role
};

// It may come again over another connection.
bool is_same_agent(const Hello& one, const Hello& other);

// `own` is node 0's own agent, which counts before it has come; `holder` the node that has come by the newcomer's
// number, nullptr for none.
Company company_of(const Hello& newcomer, const std::optional<Hello>& own, const JobNode* holder,
                   const JobNodes& nodes);

// Nothing if it may. The sentence goes to the newcomer, and, unless that is a stranger, to node 0's user.
std::optional<Refused> reason_to_refuse(const Hello& newcomer, const JobTerms& terms, const Company& company);

// True if it looks for another job, or does not speak as this one does. Such a one is told its own value of what differs,
// and nothing of the job.
bool is_stranger(const Hello& newcomer, const JobTerms& terms);
// Tells node 0's user, with both values, why the newcomer is a stranger.
std::string what_is_strange(const Hello& newcomer, const JobTerms& terms);
// This says what a port is where somebody of another job is met; in words that go behind "port 29400".
inline constexpr const char* kPortOfAnotherJob = "belongs to another job";

// Nodes that wait while the job runs without them.
inline constexpr std::size_t kMaxQueued = 1024;

// To one that nothing is held against, but the job has begun.
Refused came_too_late();
Refused too_many_wait();
// `why` its machine is left out, see Exclusion.
Refused left_out_before(const std::string& host, const std::string& why);
Refused said_hello_before();
Refused said_no_hello();

// This decides what an agent may say of its workers. Pure. Numbers that no job can have are refused before,
// where the bytes arrive (range_of).

// True if the message, which is of the node's current round, speaks of no workers but its own.
bool can_be_true(const ControlMessage& message, const JobNode& from);

}  // namespace ddprun::inline job
