// Ranks as processes that play several hosts (DDPRUN_HOSTID): what the survivors on all hosts see when one
// dies, and which settings are refused.
#include <sys/wait.h>

#include <csignal>
#include <iterator>
#include <random>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/rank_processes.hpp"

using namespace ddprun;

namespace {

// Ranks 0 … n-1 on host a, the next n on host b, ….
auto hosts_of(int ranks) {
    return [ranks](int rank, Environment& environment) {
        environment["DDPRUN_HOSTID"] = std::string(1, static_cast<char>('a' + rank / ranks));
    };
}

void require_output(RankProcesses& ranks, int rank, const std::string& expected) {
    const RankProcesses::Result result = ranks.finish(rank, kHangGuard);
    INFO("rank " << rank << " printed: " << result.output);
    REQUIRE(result.output.find(expected) != std::string::npos);
}

}  // namespace

TEST_CASE("a rank killed in an all_reduce over hosts is named by every survivor on every host", "[hosts]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (const char* mode : {"reduce-for-ever", "use-for-ever"}) {
        for (int victim = 0; victim < 4; ++victim) {
            for (int round = 0; round < 3; ++round) {
                INFO(mode << ", victim " << victim << ", round " << round);
                RankProcesses ranks(4, {DDPRUN_COLLECTIVE_PROGRAM, mode}, hosts_of(2));
                for (int rank = 0; rank < 4; ++rank) ranks.wait_for(rank, "ready", kHangGuard);
                REQUIRE(shares_memory(ranks, victim));
                let_time_pass(random);
                ranks.kill(victim, SIGKILL);
                for (int rank = 0; rank < 4; ++rank) {
                    if (rank == victim) continue;
                    require_output(ranks, rank, "error peer_died " + std::to_string(victim) + ":");
                }
                REQUIRE(WIFSIGNALED(ranks.finish(victim, kHangGuard).wait_status));
            }
        }
    }
}

TEST_CASE("processes on hosts of equal and of different sizes do all operations", "[hosts]") {
    for (const int ranks_per_host : {2, 3}) {
        RankProcesses ranks(4, {DDPRUN_COLLECTIVE_PROGRAM, "check-all"}, hosts_of(ranks_per_host));
        for (int rank = 0; rank < 4; ++rank) {
            require_output(ranks, rank, "rank " + std::to_string(rank) + " of 4: ok");
        }
    }
}

TEST_CASE("a rank of another host that stays away is named", "[hosts]") {
    RankProcesses ranks(4, {DDPRUN_COLLECTIVE_PROGRAM, "absent", "3", "6000"}, hosts_of(2));
    for (const int rank : {0, 1, 2}) require_output(ranks, rank, "error timed_out 3:");
    ranks.close_input(3);
    require_output(ranks, 3, "error timed_out 3:");
}

TEST_CASE("settings of the host that cannot be are refused by name", "[hosts]") {
    const std::pair<std::string, std::string> wrong[] = {{"DDPRUN_HOSTID", "two words"},
                                                         {"DDPRUN_SOCKET_IFNAME", "no-such-interface"},
                                                         {"DDPRUN_NET", "203.0.113.0/24"},
                                                         {"DDPRUN_SOCKETS_PER_PEER", "9"}};
    for (const auto& [name, value] : wrong) {
        const auto set = [&, name = name, value = value](int, Environment& environment) {
            environment[name] = value;
        };
        RankProcesses ranks(2, {DDPRUN_COLLECTIVE_PROGRAM, "check-all"}, set);
        for (int rank = 0; rank < 2; ++rank) require_output(ranks, rank, name + "='" + value + "'");
    }
}

TEST_CASE("processes meet on the interface and by the sockets they are told", "[hosts]") {
    RankProcesses ranks(2, {DDPRUN_COLLECTIVE_PROGRAM, "check-all"}, [](int rank, Environment& environment) {
        environment["DDPRUN_HOSTID"] = rank == 0 ? "a" : "b";
        environment["DDPRUN_SOCKET_IFNAME"] = "=lo";
        environment["DDPRUN_NET"] = "127.0.0.0/8";
        environment["DDPRUN_SOCKETS_PER_PEER"] = rank == 0 ? "3" : "4";
    });
    for (int rank = 0; rank < 2; ++rank)
        require_output(ranks, rank, "rank " + std::to_string(rank) + " of 2: ok");
}
