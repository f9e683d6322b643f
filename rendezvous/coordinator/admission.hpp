// Admission: whether an agent may take part in a job, from what it says of itself. Pure; the Coordinator
// asks.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/coordinator/control_message.hpp"

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

inline constexpr int kMaxWorkersPerNode = 4096;

// Nothing if it may. The sentence goes to the newcomer, and to node 0's user.
std::optional<Refused> reason_to_refuse(const Hello& newcomer, const JobTerms& terms, const Company& company);

}  // namespace ddprun
