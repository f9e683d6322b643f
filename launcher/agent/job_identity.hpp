// What names this machine and this launch.
#pragma once

#include <string>

namespace ddprun {

std::string host_name();

// Different for every launch, also for two with the same --rdzv-id at the same time.
std::string make_job_id(const std::string& run_id);

}  // namespace ddprun
