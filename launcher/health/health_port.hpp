// TORCHELASTIC_HEALTH_CHECK_PORT: at which port an agent says that it is alive, and what it says. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "rendezvous/job/agent_status.hpp"

namespace ddprun::inline launch {

inline constexpr const char* kHealthPortVariable = "TORCHELASTIC_HEALTH_CHECK_PORT";

// The port; nothing where the variable is not set, or empty; or what is wrong, in one line that names it.
std::variant<std::optional<std::uint16_t>, std::string> parse_health_port(
    const std::optional<std::string>& value);

// What everybody may read who reaches the port, so it holds nothing that is somebody's: one JSON object and a newline.
std::string health_text(const AgentStatus& status);

}  // namespace ddprun::inline launch
