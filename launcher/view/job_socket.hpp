// The unix socket `control` in a job's folder, by which the job's own user asks its launcher over HTTP
// (routes.hpp).
//
// listen_job_socket makes the launcher's end, which serve_unix() answers at; ask_status and send_signal are
// ddpctl's: one question, blocking, bounded. The socket's address goes through a descriptor of the folder,
// because a path may be longer than such an address has room for.
#pragma once

#include <chrono>
#include <filesystem>

#include "launcher/view/routes.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

// kControlName is the socket's in a job's folder.
inline constexpr const char* kControlName = "control";

// Makes a socket that listens at `folder`/control, for its owner alone; the folder may have another name
// afterwards. Throws Error.
OwnedDescriptor listen_job_socket(const std::filesystem::path& folder);

// Returns a socket that is connected to the launcher whose job has this folder; each of its waits takes
// `timeout` at most. Throws Error: nobody listens (any more).
OwnedDescriptor call_job(const std::filesystem::path& folder, std::chrono::milliseconds timeout);

// Connecting, asking and each wait for the answer may take so long.
inline constexpr std::chrono::seconds kAnswerTimeout{20};

// They throw Error: nobody listens (any more), no answer in time, or one that is none.
AgentStatus ask_status(const std::filesystem::path& folder,
                       std::chrono::milliseconds timeout = kAnswerTimeout);
SignalEffect send_signal(const std::filesystem::path& folder, int signal,
                         std::chrono::milliseconds timeout = kAnswerTimeout);

}  // namespace launch
}  // namespace ddprun
