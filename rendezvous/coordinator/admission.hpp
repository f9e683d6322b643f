// Admission: whether an agent may take part in a job, from what it says of itself. Pure; the Coordinator
// asks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/coordinator/job_summary.hpp"

namespace ddprun {

// What the job is, as node 0 was told.
struct JobTerms {
    std::string version;
    std::string run_id;
    int nnodes = 1;  // as in Hello, like the next
    int min_nodes = 0;
};

// Who is there already, as far as it matters to a newcomer; nullptr for nobody.
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

inline constexpr int kMaxWorkersPerNode = 4096;  // there may be none, too

// Nothing if it may. The sentence goes to the newcomer, and to node 0's user.
std::optional<Refused> reason_to_refuse(const Hello& newcomer, const JobTerms& terms, const Company& company);

// The job that somebody meets who looks for another one. Times are node 0's, on its wall clock in its zone, in
// milliseconds since 1970.
struct JobMet {
    std::string run_id;
    std::string host;  // of node 0
    std::int64_t now_ms = 0;
    std::optional<std::int64_t> start_ms;
    std::optional<std::int64_t> running_since_ms;
    std::string waiting_for;  // nodes; empty: it no longer does
};

// `belongs to job "a", started 12:03 on host gpu00, waiting for node 1`, or `…, running since 12:05`, as far as it is
// known. With the date where the day is another one.
std::string to_text(const JobMet& met);

// Whether it looks for another job, or does not speak as this one does.
bool is_stranger(const Hello& newcomer, const JobTerms& terms);

// Nodes that wait while the job runs without them.
inline constexpr std::size_t kMaxQueued = 1024;

// To one that nothing is held against, but the job has begun.
Refused came_too_late();
Refused too_many_wait();
// `why` its machine is left out, see Exclusion.
Refused left_out_before(const std::string& host, const std::string& why);
Refused said_hello_before();
Refused said_no_hello();

}  // namespace ddprun
