// What the survivors see when a rank comes to its end: in every call, in every way. DDPRUN_KILLS says how
// many times each case is tried.
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/rank_processes.hpp"
#include "tests/support/sanitized.hpp"

using namespace ddprun;

namespace {

struct Case {
    std::string call;
    std::string end;
    std::string code;
    int mebibytes = 0;
};

int tries() {
    const char* text = std::getenv("DDPRUN_KILLS");
    return text != nullptr ? std::atoi(text) : 1;
}

// Whether this is how a rank ends that lost the victim while it joined.
bool names(const std::string& output, int victim) {
    const auto begin = output.find("error ");
    if (begin == std::string::npos) return false;
    const std::string line = output.substr(begin, output.find(':', begin) - begin) + ' ';
    const bool has_code =
        line.find(" peer_died ") != std::string::npos || line.find(" timed_out ") != std::string::npos;
    return has_code && line.find(' ' + std::to_string(victim) + ' ') != std::string::npos;
}

void check(const Case& tried, int world_size, std::mt19937& random) {
    const int victim = static_cast<int>(random() % static_cast<unsigned>(world_size));
    INFO(tried.call << ", " << tried.end << ": victim " << victim << " of " << world_size);
    RankProcesses ranks(world_size, {DDPRUN_DEATH_PROGRAM, tried.call, tried.end, std::to_string(victim),
                                     std::to_string(tried.mebibytes)});
    for (int rank = 0; rank < world_size; ++rank) ranks.wait_for(rank, "ready", kHangGuard);
    let_time_pass(random);
    if (tried.end == "killed" || tried.end == "forked") {
        ranks.kill(victim, SIGKILL);
    } else {
        ranks.close_input(victim);
    }
    for (int rank = 0; rank < world_size; ++rank) {
        if (rank == victim) continue;
        ranks.close_input(rank);
        const RankProcesses::Result result = ranks.finish(rank, kHangGuard);
        INFO("rank " << rank << " printed: " << result.output);
        REQUIRE(result.output.find("error " + tried.code + ' ' + std::to_string(victim) + ':') !=
                std::string::npos);
        REQUIRE(WEXITSTATUS(result.wait_status) == 3);
    }
    ranks.close_input(victim);
    ranks.finish(victim, kHangGuard);
}

void check_all(const std::vector<Case>& cases) {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (const Case& tried : cases) {
        for (const int world_size : {2, 4, 8}) {
            if (kIsSanitized && world_size > 4) continue;  // a sanitizer sees nothing new of them
            for (int i = 0; i < tries(); ++i) check(tried, world_size, random);
        }
    }
}

// Sets a variable for the processes started meanwhile.
struct OverTcp {
    OverTcp() { ::setenv("DDPRUN_TRANSPORT", "tcp", 1); }
    ~OverTcp() { ::unsetenv("DDPRUN_TRANSPORT"); }
};

std::vector<Case> every_call() {
    std::vector<Case> cases;
    for (const char* call : {"small", "large", "broadcast", "all_gather", "reduce_scatter", "reduce",
                             "gather", "scatter", "all_to_all", "barrier", "send", "child", "thread"})
        cases.push_back({call, "killed", "peer_died"});
    return cases;
}

}  // namespace

TEST_CASE("a rank killed in any call is named by every survivor", "[death]") { check_all(every_call()); }

TEST_CASE("a rank killed in any call over TCP is named by every survivor", "[death]") {
    const OverTcp tcp;
    check_all(every_call());
}

TEST_CASE("a rank killed in the middle of a split is named by every survivor", "[death]") {
    check_all({{"split", "killed", "peer_died"}});
}

TEST_CASE("a rank killed in the middle of a split over TCP is named by every survivor", "[death]") {
    const OverTcp tcp;
    check_all({{"split", "killed", "peer_died"}});
}

TEST_CASE("a rank killed while all join leaves nobody waiting", "[death]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (const int world_size : {2, 4, 8}) {
        if (kIsSanitized && world_size > 4) continue;
        for (int i = 0; i < tries(); ++i) {
            const int victim = static_cast<int>(random() % static_cast<unsigned>(world_size));
            INFO("victim " << victim << " of " << world_size);
            RankProcesses ranks(world_size, {DDPRUN_DEATH_PROGRAM, "join", "killed", std::to_string(victim)});
            ranks.wait_for(victim, "ready", kHangGuard);
            let_time_pass(random);
            ranks.kill(victim, SIGKILL);
            for (int rank = 0; rank < world_size; ++rank) {
                ranks.close_input(rank);
                const RankProcesses::Result result = ranks.finish(rank, kHangGuard);
                if (rank == victim) continue;
                INFO("rank " << rank << " printed: " << result.output);
                // Before it is in the ring, it looks late, and with it others may be that did not come in
                // time.
                REQUIRE(names(result.output, victim));
                REQUIRE(WEXITSTATUS(result.wait_status) == 3);
            }
        }
    }
}

TEST_CASE("a rank's process may end in any way", "[death]") {
    check_all({
        {"large", "exit", "peer_left"},
        {"small", "exit", "peer_left"},
        {"send", "exit", "peer_left"},
        {"child", "exit", "peer_left"},
        {"large", "_exit", "peer_died"},
        {"large", "exec", "peer_died"},
        {"small", "exec", "peer_died"},
    });
}

TEST_CASE("a rank that leaves is named by all others, though each ends as soon as it has heard", "[death]") {
    std::vector<Case> cases;
    for (const Case& one : every_call()) cases.push_back({one.call, "leave", "peer_left"});
    check_all(cases);
    const OverTcp tcp;
    check_all(cases);
}

TEST_CASE("a killed rank is dead though a child of its own lives on", "[death]") {
    check_all({{"large", "forked", "peer_died"}, {"barrier", "forked", "peer_died"}});
}

TEST_CASE("a killed rank is dead over TCP though a child of its own lives on", "[death]") {
    const OverTcp tcp;
    check_all({{"large", "forked", "peer_died"}, {"barrier", "forked", "peer_died"}});
}

TEST_CASE("a killed rank is named at once though its memory takes long to be freed", "[death]") {
    check_all({{"large", "killed", "peer_died", 256}});
}
