// Looks at this node. Reads /proc and /sys, binds ports for a moment, and asks through child processes what may never
// be answered; takes hardly longer than the limit for these.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/doctor/questions.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

// Children are waited for so long by `ddprun doctor`, and where a job is to start (--check).
inline constexpr std::chrono::milliseconds kDoctorLimit{5'000};
inline constexpr std::chrono::milliseconds kCheckLimit{1'000};

struct PortAsked {
    std::uint16_t port = 0;
    bool is_needed = false;
};

struct LookRequest {
    Environment environment;
    std::string host;
    std::size_t workers = 1;
    std::vector<PortAsked> ports;
    std::vector<FolderQuestion> folders;
    bool asks_name = false;
    std::optional<std::string> python;  // as it is looked for on PATH; nothing: not asked
    std::chrono::milliseconds limit = kCheckLimit;
};

// If a name or Python is asked for, there must be no other threads.
Surroundings look_around(const LookRequest& request);

// The address by which others are to call this node: the one by which workers would be reached. The environment is a
// worker's: it is in a network of DDPRUN_NET, else of the interface that Gloo was told to take (by --local-addr, or by the
// user), else `node_addr`, by which the node has reached node 0; empty: that is not known. Pure.
std::string meeting_address(const Environment& environment, const std::string& node_addr,
                            const std::vector<LocalAddress>& own);

}  // namespace ddprun::inline launch
