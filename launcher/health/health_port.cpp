#include "launcher/health/health_port.hpp"

#include <fmt/core.h>

#include <boost/json.hpp>

#include "launcher/harmless_text.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline launch {

std::variant<std::optional<std::uint16_t>, std::string> parse_health_port(
    const std::optional<std::string>& value) {
    if (!value || value->empty()) return std::nullopt;
    const auto port = parse_port(*value);
    if (port && *port != 0) return port;
    return fmt::format("{}: '{}' must be a port from 1 to 65535", kHealthPortVariable, harmless_line(*value));
}

std::string health_text(const AgentStatus& status) {
    // Before the first round there is no job yet.
    const auto of_round = [&status](int number) {
        return status.job_id.empty() ? boost::json::value(nullptr) : boost::json::value(number);
    };
    const boost::json::object text{{"status", "alive"},
                                   {"state", status.state},
                                   {"round", of_round(status.round)},
                                   {"restart_count", of_round(status.restart_count)},
                                   {"world_size", of_round(status.world_size)},
                                   {"workers", status.workers.size()}};
    return boost::json::serialize(text) + "\n";
}

}  // namespace ddprun::inline launch
