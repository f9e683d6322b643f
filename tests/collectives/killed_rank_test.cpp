// What the survivors see when a rank's process dies, at a random moment of any operation.
#include <sys/wait.h>

#include <csignal>
#include <random>

#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/rank_processes.hpp"
#include "tests/support/sanitized.hpp"

using namespace ddprun;

namespace {

void require_error(RankProcesses& ranks, int rank, const std::string& expected) {
    const RankProcesses::Result result = ranks.finish(rank, kHangGuard);
    INFO("rank " << rank << " printed: " << result.output);
    REQUIRE(result.output.find("error " + expected + ":") != std::string::npos);
    REQUIRE(WIFEXITED(result.wait_status));
    REQUIRE(WEXITSTATUS(result.wait_status) == 3);
}

// Of a mode of the program in which a rank dies.
void check_kills(const char* mode, int rounds) {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (const int world_size : {2, 3, 4}) {
        for (int round = 0; round < rounds; ++round) {
            const int victim = static_cast<int>(random() % static_cast<unsigned>(world_size));
            const std::string moment = std::to_string(random() % 1'000'000);
            INFO("victim " << victim << " of " << world_size << ", moment " << moment);
            RankProcesses ranks(world_size,
                                {DDPRUN_COLLECTIVE_PROGRAM, mode, std::to_string(victim), moment});
            for (int rank = 0; rank < world_size; ++rank) {
                if (rank != victim) require_error(ranks, rank, "peer_died " + std::to_string(victim));
            }
            REQUIRE(WIFSIGNALED(ranks.finish(victim, kHangGuard).wait_status));
        }
    }
}

}  // namespace

TEST_CASE("a rank killed at a random moment is named by every survivor", "[killed]") {
    check_kills("kill-me", kIsSanitized ? 3 : 8);
}

TEST_CASE("a rank killed in the middle of a group is named by every survivor", "[killed]") {
    check_kills("exchange-for-ever", kIsSanitized ? 2 : 4);
}

TEST_CASE("a rank killed while the others wait for it is named", "[killed]") {
    RankProcesses ranks(3, {DDPRUN_COLLECTIVE_PROGRAM, "absent", "1", "300000"});
    ranks.wait_for(1, "ready", kHangGuard);
    ranks.kill(1, SIGKILL);
    require_error(ranks, 0, "peer_died 1");
    require_error(ranks, 2, "peer_died 1");
}

TEST_CASE("a rank that exits without a goodbye is named", "[killed]") {
    RankProcesses ranks(3, {DDPRUN_COLLECTIVE_PROGRAM, "exit-quietly", "0"});
    require_error(ranks, 1, "peer_died 0");
    require_error(ranks, 2, "peer_died 0");
    REQUIRE(ranks.finish(0, kHangGuard).wait_status == 0);
}

TEST_CASE("a rank that stays away is named by all, itself included", "[killed]") {
    RankProcesses ranks(3, {DDPRUN_COLLECTIVE_PROGRAM, "absent", "2", "6000"});
    require_error(ranks, 0, "timed_out 2");
    require_error(ranks, 1, "timed_out 2");
    ranks.close_input(2);
    require_error(ranks, 2, "timed_out 2");
}

TEST_CASE("a rank that is stopped is named, though it cannot answer", "[killed]") {
    RankProcesses ranks(3, {DDPRUN_COLLECTIVE_PROGRAM, "absent", "2", "6000"});
    ranks.wait_for(2, "ready", kHangGuard);
    ranks.kill(2, SIGSTOP);
    for (const int rank : {0, 1}) require_error(ranks, rank, "timed_out 2");
}

TEST_CASE("processes that disagree are told", "[killed]") {
    RankProcesses ranks(2, {DDPRUN_COLLECTIVE_PROGRAM, "mismatch", "1"});
    require_error(ranks, 0, "mismatch 0 1");
    require_error(ranks, 1, "mismatch 0 1");
}

TEST_CASE("all operations work between processes", "[killed]") {
    RankProcesses ranks(3, {DDPRUN_COLLECTIVE_PROGRAM, "check-all"});
    for (int rank = 0; rank < 3; ++rank) {
        const RankProcesses::Result result = ranks.finish(rank, kHangGuard);
        INFO(result.output);
        REQUIRE(result.wait_status == 0);
        REQUIRE(result.output == "rank " + std::to_string(rank) + " of 3: ok\n");
    }
}
