// ddpctl's end of job_control.hpp: one question to the launcher of a job. Blocking, bounded.
#pragma once

#include <chrono>
#include <filesystem>

#include "launcher/jobs/job_control.hpp"

namespace ddprun::inline launch {

// How long connecting, asking and each wait for the answer may take.
inline constexpr std::chrono::seconds kControlAnswerTimeout{20};

// The reply of the launcher whose job has this folder. Throws Error: nobody listens (any more), no answer in
// time, or one that is none.
ControlReply ask_job(const std::filesystem::path& folder, const ControlRequest& request,
                     std::chrono::milliseconds timeout = kControlAnswerTimeout);

}  // namespace ddprun::inline launch
