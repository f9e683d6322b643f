// Ranks as processes in shared memory: that it is what they use, what a SIGKILL in the middle of large
// reductions leaves to the survivors, and that it leaves nothing else.
#include <dirent.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <csignal>
#include <iterator>
#include <random>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/rank_processes.hpp"
#include "tests/support/sanitized.hpp"

using namespace ddprun;

namespace {

int ddprun_files_in(const char* folder) {
    int count = 0;
    DIR* open = ::opendir(folder);
    if (open == nullptr) return 0;
    while (const dirent* entry = ::readdir(open)) {
        if (std::string(entry->d_name).find("ddprun-collectives") != std::string::npos) ++count;
    }
    ::closedir(open);
    return count;
}

// Sets a variable for the processes started meanwhile.
struct Variable {
    explicit Variable(const char* value) { ::setenv("DDPRUN_TRANSPORT", value, 1); }
    ~Variable() { ::unsetenv("DDPRUN_TRANSPORT"); }
};

}  // namespace

TEST_CASE("a rank killed in the middle of large all_reduces is named by every survivor", "[shm]") {
    const Variable automatic("auto");
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    constexpr int kRounds = kIsSanitized ? 4 : 16;
    for (const int world_size : {2, 4, 8}) {
        for (int round = 0; round < kRounds; ++round) {
            const int victim = static_cast<int>(random() % static_cast<unsigned>(world_size));
            INFO("victim " << victim << " of " << world_size << ", round " << round);
            const char* mode = round % 2 == 0 ? "reduce-for-ever" : "reduce-shared-for-ever";
            RankProcesses ranks(world_size, {DDPRUN_COLLECTIVE_PROGRAM, mode});
            for (int rank = 0; rank < world_size; ++rank) ranks.wait_for(rank, "ready", kHangGuard);
            REQUIRE(shares_memory(ranks, victim));
            let_time_pass(random);
            ranks.kill(victim, SIGKILL);
            for (int rank = 0; rank < world_size; ++rank) {
                const RankProcesses::Result result = ranks.finish(rank, kHangGuard);
                INFO("rank " << rank << " printed: " << result.output);
                if (rank == victim) {
                    REQUIRE(WIFSIGNALED(result.wait_status));
                    continue;
                }
                REQUIRE(result.output.find("error peer_died " + std::to_string(victim) + ":") !=
                        std::string::npos);
                REQUIRE(WEXITSTATUS(result.wait_status) == 3);
            }
        }
    }
    REQUIRE(ddprun_files_in("/dev/shm") == 0);
    REQUIRE(ddprun_files_in("/tmp") == 0);
}

TEST_CASE("all ranks killed at once leave no file behind", "[shm]") {
    const Variable automatic("auto");
    RankProcesses ranks(3, {DDPRUN_COLLECTIVE_PROGRAM, "reduce-for-ever"});
    for (int rank = 0; rank < 3; ++rank) ranks.wait_for(rank, "ready", kHangGuard);
    for (int rank = 0; rank < 3; ++rank) ranks.kill(rank, SIGKILL);
    for (int rank = 0; rank < 3; ++rank) ranks.finish(rank, kHangGuard);
    REQUIRE(ddprun_files_in("/dev/shm") == 0);
    REQUIRE(ddprun_files_in("/tmp") == 0);
}

TEST_CASE("DDPRUN_TRANSPORT=tcp keeps processes off shared memory", "[shm]") {
    const Variable tcp("tcp");
    RankProcesses ranks(2, {DDPRUN_COLLECTIVE_PROGRAM, "reduce-for-ever"});
    for (int rank = 0; rank < 2; ++rank) ranks.wait_for(rank, "ready", kHangGuard);
    for (int rank = 0; rank < 2; ++rank) REQUIRE_FALSE(shares_memory(ranks, rank));
    ranks.kill(0, SIGKILL);
    REQUIRE(ranks.finish(1, kHangGuard).output.find("error peer_died 0:") != std::string::npos);
}

TEST_CASE("an unknown DDPRUN_TRANSPORT is refused by name", "[shm]") {
    const Variable wrong("carrier-pigeon");
    RankProcesses ranks(2, {DDPRUN_COLLECTIVE_PROGRAM, "check-all"});
    for (int rank = 0; rank < 2; ++rank) {
        const RankProcesses::Result result = ranks.finish(rank, kHangGuard);
        INFO(result.output);
        REQUIRE(result.output.find("error invalid_argument: ") != std::string::npos);
        REQUIRE(result.output.find("DDPRUN_TRANSPORT='carrier-pigeon'") != std::string::npos);
    }
}
