#include "launcher/features/health.hpp"

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

TEST_CASE("health port: the text says where the agent is, and whose job it is to nobody") {
    CHECK(
        health_text({.state = "joining"}) ==
        R"({"status":"alive","state":"joining","round":null,"restart_count":null,"world_size":null,"workers":0})"
        "\n");
    CHECK(health_text({.state = "running",
                       .job_id = "secret",
                       .round = 2,
                       .restart_count = 1,
                       .max_restarts = 3,
                       .world_size = 8,
                       .workers = {{}, {}}}) ==
          R"({"status":"alive","state":"running","round":2,"restart_count":1,"world_size":8,"workers":2})"
          "\n");
}

}  // namespace ddprun
