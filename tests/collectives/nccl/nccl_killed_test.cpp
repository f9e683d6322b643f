// A rank of the NCCL backend that is killed, or aborts: what the others say. Ranks are processes, on NCCL's
// stand-in, which tells nobody of a death.
#include <sys/wait.h>

#include <csignal>

#include "tests/collectives/nccl/nccl_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/rank_processes.hpp"

using namespace ddprun;

namespace {

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

void expect_named(int ranks, int victim, int seed, const std::string& faults) {
    const StandIn standin(faults);
    RankProcesses job(ranks, {DDPRUN_GPU_CHECK_PROGRAM, "die", std::to_string(victim), std::to_string(seed)});
    for (int rank = 0; rank < ranks; ++rank) {
        const auto result = job.finish(rank, kHangGuard);
        INFO("rank " << rank << " of " << ranks << ", victim " << victim << ": " << result.output);
        if (rank == victim) {
            CHECK((WIFSIGNALED(result.wait_status) && WTERMSIG(result.wait_status) == SIGKILL));
        } else {
            CHECK(WEXITSTATUS(result.wait_status) == 3);
            CHECK(contains(result.output, "error peer_died " + std::to_string(victim) + ": all_reduce"));
        }
    }
}

}  // namespace

TEST_CASE("a killed rank is named by all survivors, whatever NCCL says of it") {
    for (int seed = 0; seed < 6; ++seed) {
        expect_named(2, seed % 2, seed, "");
        expect_named(4, seed % 4, seed, seed % 2 == 0 ? "" : "in_progress:5");
    }
}

TEST_CASE("a rank that aborts ends the others") {
    const StandIn standin;
    RankProcesses job(3, {DDPRUN_GPU_CHECK_PROGRAM, "abort", "1"});
    for (int rank = 0; rank < 3; ++rank) {
        const auto result = job.finish(rank, kHangGuard);
        INFO(result.output);
        CHECK(WEXITSTATUS(result.wait_status) == 3);
        CHECK(contains(result.output, "error aborted 1: "));
        CHECK(contains(result.output, "asked to"));
    }
}

TEST_CASE("survivors of a death inside NCCL name it: in the making, and while the ranks connect") {
    for (const int victim : {0, 1}) {
        // The last: NCCL itself fails on another rank, before the death is known.
        for (const std::string faults : {"init_dies@", "connects,dies:1@", "init_error@2,init_dies:20@"}) {
            const StandIn standin(faults + std::to_string(victim));
            RankProcesses job(3, {DDPRUN_GPU_CHECK_PROGRAM, "abort", "-1"});
            for (int rank = 0; rank < 3; ++rank) {
                const auto result = job.finish(rank, kHangGuard);
                INFO(faults << ", rank " << rank << ": " << result.output);
                if (rank == victim) {
                    CHECK((WIFSIGNALED(result.wait_status) && WTERMSIG(result.wait_status) == SIGKILL));
                } else {
                    CHECK(WEXITSTATUS(result.wait_status) == 3);
                    CHECK(contains(result.output, "error peer_died " + std::to_string(victim) + ": "));
                }
            }
        }
    }
}

TEST_CASE("survivors get their error even if NCCL hangs in abort") {
    const StandIn standin("abort_hangs@0");
    // The operation that was under way says so; one that was begun just afterwards does not wait for the
    // abort.
    bool says_so = false;
    for (int seed = 3; seed < 13 && !says_so; ++seed) {
        RankProcesses job(2, {DDPRUN_GPU_CHECK_PROGRAM, "die", "1", std::to_string(seed)});
        const auto survivor = job.finish(0, kHangGuard);
        INFO(survivor.output);
        CHECK(contains(survivor.output, "error peer_died 1: "));
        says_so = contains(survivor.output, "left to the launcher to kill");
    }
    CHECK(says_so);
}
