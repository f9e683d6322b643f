#include "launcher/features/health_port.hpp"

#include <boost/asio/io_context.hpp>
#include <string>
#include <vector>

#include "launcher/view/http_server.hpp"
#include "tests/launcher/agent/fake_agent.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("health port: a port, nothing, or one line that names the variable") {
    using Port = std::optional<std::uint16_t>;
    const std::pair<std::optional<std::string>, Port> kGood[] = {
        {std::nullopt, std::nullopt}, {"", std::nullopt}, {"1", 1}, {"8080", 8080}, {"65535", 65535}};
    for (const auto& [value, port] : kGood) CHECK(std::get<Port>(parse_health_port(value)) == port);
    for (const char* value : {"0", "65536", "-1", "80 ", "0x50", "port", "8080\n"}) {
        CAPTURE(value);
        const auto parsed = parse_health_port(value);
        REQUIRE(std::holds_alternative<std::string>(parsed));
        CHECK(std::get<std::string>(parsed).starts_with("TORCHELASTIC_HEALTH_CHECK_PORT: '"));
        CHECK(std::get<std::string>(parsed).find('\n') == std::string::npos);
    }
}

TEST_CASE("health watch: a port that is taken is one line, which names its holder") {
    boost::asio::io_context context(1);
    const std::uint16_t taken = serve_tcp(context.get_executor(), ListenScope::any, 0, {});
    FakeAgent agent(context.get_executor());
    const std::vector<std::string>& said = agent.said;
    LauncherLog log;
    agent.given.features.of<HealthPortOptions>().port = taken;
    make_health_port({.options = agent.given, .log = log})->began(agent);
    REQUIRE(said.size() == 1);
    CHECK(said[0].starts_with(std::string(kHealthPortVariable) + " " + std::to_string(taken) +
                              ": the port is held by pid "));
    CHECK(said[0].ends_with("; nobody can ask whether this agent is alive, the job goes on"));
}

}  // namespace ddprun
