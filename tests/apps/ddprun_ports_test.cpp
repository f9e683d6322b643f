#include "apps/ddprun/launch_plan.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("launch: a job of several nodes with an id and no port may be at one of eight") {
    const auto ports = [](const std::vector<std::string>& more) {
        std::vector<std::string> words{"--rdzv-backend=c10d", "--rdzv-endpoint=h"};
        words.insert(words.end(), more.begin(), more.end());
        words.insert(words.end(), {"--nproc-per-node=1", "--no-python", "p"});
        return resolve_launch(parse_command_line(words, {}), {}).master_ports;
    };
    CHECK(ports({"--nnodes=2", "--rdzv-id=a"}) == 8);
    CHECK(ports({"--nnodes=1:2", "--rdzv-id=a"}) == 8);
    CHECK(ports({"--nnodes=2"}) == 1);
    CHECK(ports({"--nnodes=2", "--rdzv-id=none"}) == 1);
    CHECK(ports({"--nnodes=1", "--rdzv-id=a"}) == 1);
    CHECK(ports({"--nnodes=2", "--rdzv-id=a", "--rdzv-endpoint=h:29400"}) == 1);
    CHECK(ports({"--nnodes=2", "--rdzv-id=a", "--master-port=29400"}) == 1);
    CHECK(ports({"--nnodes=2", "--rdzv-id=a", "--rdzv-backend=static"}) == 1);
}

}  // namespace ddprun
