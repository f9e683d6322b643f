#include "launcher/features/health_port.hpp"

#include <fmt/core.h>

#include <boost/system/system_error.hpp>

#include "launcher/harmless_text.hpp"
#include "launcher/view/http_server.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/socket_owner.hpp"

namespace ddprun {
inline namespace launch {
namespace {

std::string taken_text(std::uint16_t port) {
    const auto owner = find_port_owner(port);
    return owner ? fmt::format("the port is held by pid {} ({})", owner->pid, owner->command)
                 : std::string("the port is taken");
}

class HealthPort final : public Feature {
  public:
    explicit HealthPort(const HealthPortOptions& options)
        : port_(options.port.value()), scope_(options.scope) {}

    void began(AgentControls& agent) override {
        try {
            serve_tcp(agent.executor(), scope_, port_, {.status = [&agent] { return agent.status(); }});
        } catch (const boost::system::system_error& error) {
            const std::string why = error.code() == Errc::address_in_use ? taken_text(port_) : error.what();
            agent.say(LogLevel::warn,
                      fmt::format("{} {}: {}; nobody can ask whether this agent is alive, the job goes on",
                                  kHealthPortVariable, port_, why));
        }
    }

  private:
    std::uint16_t port_;
    ListenScope scope_;
};

}  // namespace

std::variant<std::optional<std::uint16_t>, std::string> parse_health_port(
    const std::optional<std::string>& value) {
    if (!value || value->empty()) return std::nullopt;
    const auto port = parse_port(*value);
    if (port && *port != 0) return port;
    return fmt::format("{}: '{}' must be a port from 1 to 65535", kHealthPortVariable, harmless_line(*value));
}

std::optional<std::string> open_health_port(FeatureOptions& options, const EarlyFacts& facts) {
    const std::string* value = find_variable(facts.environment, kHealthPortVariable);
    if (value == nullptr) return std::nullopt;
    const auto parsed = parse_health_port(*value);
    if (const auto* wrong = std::get_if<std::string>(&parsed)) return *wrong;
    HealthPortOptions& own = options.of<HealthPortOptions>();
    own.port = std::get<0>(parsed);
    if (own.port && facts.site_policy().health_on_loopback) own.scope = ListenScope::loopback;
    return std::nullopt;
}

std::unique_ptr<Feature> make_health_port(const FeatureInputs& inputs) {
    return std::make_unique<HealthPort>(inputs.options.features.of<HealthPortOptions>());
}

}  // namespace launch
}  // namespace ddprun
