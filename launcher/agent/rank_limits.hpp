// Ranks that an option names and the job does not have: a typing error that would have no effect. Pure.
#pragma once

#include <optional>
#include <string>

#include "launcher/agent/launch_options.hpp"

namespace ddprun::inline launch {

// Of --show, --tty and --wrap: the first of their ranks or ranges that goes beyond a job of so many workers,
// in one line that names flag, value and number; nothing if there is none. On several nodes the number is known
// only when all have joined.
std::optional<std::string> rank_beyond_job(const LaunchOptions& options, int world_size);

// Likewise the local ranks of --redirects, --tee, --local-ranks-filter and --wrap local=, for this node's
// workers.
std::optional<std::string> local_rank_beyond_node(const LaunchOptions& options);

}  // namespace ddprun::inline launch
