#include "launcher/health/health_port.hpp"

#include <fmt/core.h>

#include <boost/json.hpp>

#include "launcher/harmless_text.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {

std::variant<std::optional<std::uint16_t>, std::string> parse_health_port(
    const std::optional<std::string>& value) {
    if (!value || value->empty()) return std::nullopt;
    const auto port = parse_port(*value);
    if (port && *port != 0) return port;
    return fmt::format("{}: '{}' must be a port from 1 to 65535", kHealthPortVariable, harmless_line(*value));
}

std::string health_text(const AgentStatus& status) {
    return boost::json::serialize(boost::json::object{{"status", "alive"},
                                                      {"state", status.state},
                                                      {"round", status.round},
                                                      {"restart_count", status.restart_count},
                                                      {"world_size", status.world_size},
                                                      {"workers", status.workers.size()}}) +
           "\n";
}

}  // namespace ddprun
