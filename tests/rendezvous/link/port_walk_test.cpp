#include "rendezvous/link/port_walk.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("an agent calls port after port, round and round, with a pause before each round but the first") {
    PortWalk walk(29400, 3);
    CHECK(walk.ports() == std::vector<std::uint16_t>{29400, 29401, 29402});
    CHECK(walk.pause().count() == 0);
    auto pause = PortWalk::kFirstPause;
    for (int round = 0; round < 12; ++round) {
        for (std::uint16_t port = 29400; port <= 29402; ++port) {
            REQUIRE(walk.port() == port);
            walk.pass_nobody("refused");
            CHECK(walk.has_ended_round() == (port == 29402));
            CHECK(walk.pause() == (port == 29402 ? pause : std::chrono::milliseconds(0)));
        }
        pause = std::min(2 * pause, PortWalk::kLongestPause);
    }
}

TEST_CASE("what an agent has met at the ports is one line") {
    PortWalk walk(29400, 3);
    for (int i = 0; i < 3; ++i) walk.pass_nobody("cannot connect to gpu00:" + std::to_string(walk.port()));
    CHECK(walk.text() ==
          "cannot connect to gpu00:29402; nor is the job at any other port from 29400 to 29402");
    walk.pass_stranger("belongs to job \"a\"");
    CHECK(walk.text() == "port 29400 belongs to job \"a\"; nobody else from 29400 to 29402");
    walk.pass_stranger("belongs to job \"b\"");
    walk.pass_stranger("is another program's");
    CHECK(
        walk.text() ==
        "port 29400 belongs to job \"a\"; port 29401 belongs to job \"b\"; port 29402 is another program's");
    walk.pass_nobody("refused");
    CHECK(
        walk.text() ==
        "port 29401 belongs to job \"b\"; port 29402 is another program's; nobody else from 29400 to 29402");
}

}  // namespace ddprun
