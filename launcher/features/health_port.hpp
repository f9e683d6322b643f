// make_health_port() has an agent answer every GET at the health port (TORCHELASTIC_HEALTH_CHECK_PORT) with
// 200 and a text, for probes of whether a process is alive (a kubelet's). What the answer says and its
// limits: launcher/view/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "launcher/agent/feature.hpp"
#include "rendezvous/net/listen.hpp"

namespace ddprun {
inline namespace launch {

inline constexpr const char* kHealthPortVariable = "TORCHELASTIC_HEALTH_CHECK_PORT";

// HealthPortOptions, as open_health_port() finds them.
struct HealthPortOptions {
    std::optional<std::uint16_t> port;     // nothing: there is no health port
    ListenScope scope = ListenScope::any;  // where the port may be reached from
};

// Returns the port; nothing where the variable is not set, or empty; or what is wrong, in one line that names
// the variable.
std::variant<std::optional<std::uint16_t>, std::string> parse_health_port(
    const std::optional<std::string>& value);

// Reads the environment, and what the site says of health ports. Returns what is wrong.
std::optional<std::string> open_health_port(FeatureOptions& options, const EarlyFacts& facts);

// Makes the feature that answers at the port, from before the agent joins to its end. If the port cannot be
// had the job goes on, and one line says so.
std::unique_ptr<Feature> make_health_port(const FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
