// The health port (TORCHELASTIC_HEALTH_CHECK_PORT): an agent answers every GET there with 200 and a text, for those who watch
// whether a process is alive (a kubelet's probe). It answers on the executor's thread, so an executor that stands still is
// one that is not alive.
//
// Anybody may call. So there is one request for a connection, kTimeout for all of it, kMaxRequest bytes, and kMaxConnections
// at one time; the oldest of these gives way to a new one, so that nobody who holds connections open keeps a probe out.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "launcher/agent/feature.hpp"
#include "rendezvous/job/agent_status.hpp"
#include "rendezvous/net/socket.hpp"

namespace ddprun::inline launch {

inline constexpr const char* kHealthPortVariable = "TORCHELASTIC_HEALTH_CHECK_PORT";

// Returns the port; nothing where the variable is not set, or empty; or what is wrong, in one line that names it.
std::variant<std::optional<std::uint16_t>, std::string> parse_health_port(
    const std::optional<std::string>& value);

// Everybody may read this who reaches the port, so it holds nothing that is somebody's: one JSON object and a newline.
std::string health_text(const AgentStatus& status);

struct HealthLimits {
    static constexpr std::size_t kMaxConnections = 16;
    static constexpr std::size_t kMaxRequest = 4096;
    static constexpr std::chrono::milliseconds kTimeout{5000};

    std::size_t connections = kMaxConnections;
    std::chrono::milliseconds timeout = kTimeout;
    ListenScope scope = ListenScope::any;  // a kubelet calls from outside of the pod
};

// serve_health listens until the executor's context ends; `text` is asked on the executor's thread. Returns the port, which is
// `port` unless that is 0. Throws as listen_tcp does.
std::uint16_t serve_health(const boost::asio::any_io_executor& executor, std::uint16_t port,
                           std::function<std::string()> text, const HealthLimits& limits = {});

// The agent's answer, from before it joins to its end. If the port cannot be had the job goes on, and one line says so.
// Returns nullptr without a port in the inputs.
std::unique_ptr<Feature> make_health(FeatureInputs& inputs);

}  // namespace ddprun::inline launch
