// The launcher's end of job_control.hpp: answers processes of the same user (or root).
//
// Runs on the executor's thread beside the agent and cannot disturb it: a connection has kControlTimeout in
// all and one line of bounded length, more than kMaxControlClients wait in the kernel's queue.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "rendezvous/job/agent_status.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

inline constexpr std::size_t kMaxControlClients = 16;
inline constexpr std::chrono::seconds kControlTimeout{5};

// What a signal to the launcher would do.
struct SignalEffect {
    std::string refusal;  // nothing, and why
    bool ends_job = false;
};

struct JobControlHandlers {
    std::function<AgentStatus()> status;
    std::function<SignalEffect(int)> effect_of;
    // Called when the answer is on its way, if the signal was not refused.
    std::function<void(int)> deliver;
};

// A socket that listens at `folder`/control; the folder's path may be longer than a socket's address and may
// change afterwards. Throws Error.
OwnedDescriptor listen_job_control(const std::filesystem::path& folder);

// Answers until the executor's context is destroyed.
void serve_job_control(const boost::asio::any_io_executor& executor, OwnedDescriptor listener,
                       JobControlHandlers handlers, std::chrono::milliseconds timeout = kControlTimeout);

}  // namespace ddprun::inline launch
