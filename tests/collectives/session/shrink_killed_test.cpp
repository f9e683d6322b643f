// Survivors of killed ranks go on without them. Ranks are processes.
#include <sys/wait.h>

#include <csignal>

#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/rank_processes.hpp"

using namespace ddprun;

namespace {

// The victims, each as its rank in the communicator of its time; and all ranks that are left, by their first
// ranks.
void check(const std::string& transport, const std::vector<std::string>& victims,
           const std::vector<int>& left) {
    INFO("over " << transport);
    std::vector<std::string> command{DDPRUN_SHRINK_PROGRAM};
    command.insert(command.end(), victims.begin(), victims.end());
    RankProcesses ranks(4, command,
                        [&](int, Environment& environment) { environment["DDPRUN_TRANSPORT"] = transport; });
    int place = 0;
    for (const int rank : left) {
        const RankProcesses::Result result = ranks.finish(rank, kHangGuard);
        INFO("rank " << rank << " printed: " << result.output);
        const std::string expected =
            std::to_string(left.size()) + " ranks left, rank " + std::to_string(place++) + ": ok";
        REQUIRE(result.output.find(expected) != std::string::npos);
        REQUIRE(result.wait_status == 0);
    }
}

}  // namespace

TEST_CASE("survivors of a killed rank go on without it", "[killed][shrink]") {
    for (const std::string transport : {"auto", "tcp"}) {
        for (int victim = 0; victim < 4; ++victim) {
            INFO("victim " << victim);
            std::vector<int> left{0, 1, 2, 3};
            left.erase(left.begin() + victim);
            check(transport, {std::to_string(victim)}, left);
        }
    }
}

TEST_CASE("survivors of two deaths one after the other go on", "[killed][shrink]") {
    for (const std::string transport : {"auto", "tcp"}) {
        check(transport, {"1", "1"}, {0, 3});
        check(transport, {"0", "0", "1"}, {2});
    }
}
