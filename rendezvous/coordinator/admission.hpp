// Admission: whether an agent may take part in a job, from what it says of itself. Pure; the Coordinator
// asks.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/coordinator/job_summary.hpp"

namespace ddprun {

// What the job is, as node 0 was told.
struct JobTerms {
    std::string version;
    std::string run_id;
    int nnodes = 1;
};

// Who is there already, as far as it matters to a newcomer; nullptr for nobody.
struct Company {
    const Hello* holder = nullptr;     // of the newcomer's node number
    const Hello* companion = nullptr;  // the lowest node with workers of the newcomer's role
};

// `own` is node 0's own agent, which counts before it has come.
Company company_of(const Hello& newcomer, const std::optional<Hello>& own, const JobNodes& nodes);

inline constexpr int kMaxWorkersPerNode = 4096;

// Nothing if it may. The sentence goes to the newcomer, and to node 0's user.
std::optional<Refused> reason_to_refuse(const Hello& newcomer, const JobTerms& terms, const Company& company);

// To one that nothing is held against, but the job has begun.
Refused came_too_late();
Refused said_hello_before();
Refused said_no_hello();

}  // namespace ddprun
