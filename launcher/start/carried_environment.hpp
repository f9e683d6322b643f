// Which variables go along to the hosts of a job, and which are a host's own. Pure.
#pragma once

#include <string_view>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

// One that speaks of the machine, the session or the scheduler's step that it is set in: it is not carried, and a host's own
// stays. apps/ddprun/manual/clusters.md lists them.
bool is_host_bound(std::string_view name);

// What the starter sends.
Environment carried_environment(const Environment& environment);

// Whose variables count on a host besides those that are bound to it.
struct HostsOwn {
    bool all = false;   // nothing was carried
    bool gpus = false;  // which GPUs are seen, where the host says so
};

// What the agent on a host has: what was carried, over the host's own of those that are not.
Environment agent_environment(const Environment& carried, const Environment& own, HostsOwn which);

// What --clean-env leaves: who the user is, where programs are, language and time, and which GPUs the job has.
Environment clean_environment(const Environment& environment);

}  // namespace ddprun::inline launch
