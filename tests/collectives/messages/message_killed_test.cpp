// What becomes of messages by tag when a rank is killed or stopped, and where the system lets nobody copy
// from another process. DDPRUN_KILLS says how many times each case is tried.
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/rank_processes.hpp"

using namespace ddprun;

namespace {

// How the bytes of large messages go.
struct Way {
    const char* name;
    bool tcp;
    const char* refusal;  // of the system
};

constexpr Way kWays[] = {
    {"copied by the receiver", false, nullptr},
    {"through the shared memory", false, "EPERM"},
    {"over TCP", true, nullptr},
};

std::unique_ptr<RankProcesses> start_ranks(const Way& way, int world_size, const std::string& mode,
                                           int victim = 0) {
    std::vector<std::string> command{DDPRUN_MESSAGE_PROGRAM, mode, std::to_string(victim)};
    if (way.refusal != nullptr) command.emplace_back(way.refusal);
    auto ranks = std::make_unique<RankProcesses>(world_size, command, [&](int, Environment& environment) {
        if (way.tcp) environment["DDPRUN_TRANSPORT"] = "tcp";
    });
    if (mode == "check" || mode == "secret") return ranks;
    for (int rank = 0; rank < world_size; ++rank) ranks->wait_for(rank, "ready", kHangGuard);
    // The victim may be dead already.
    REQUIRE(shares_memory(*ranks, (victim + 1) % world_size) == !way.tcp);
    return ranks;
}

void require_victim_named(RankProcesses& ranks, int world_size, int victim) {
    for (int rank = 0; rank < world_size; ++rank) {
        if (rank == victim) continue;
        ranks.close_input(rank);
        const RankProcesses::Result result = ranks.finish(rank, kHangGuard);
        INFO("rank " << rank << " printed: " << result.output);
        REQUIRE(result.output.find("error peer_died " + std::to_string(victim) + ':') != std::string::npos);
        REQUIRE(WEXITSTATUS(result.wait_status) == 3);
    }
    REQUIRE(WIFSIGNALED(ranks.finish(victim, kHangGuard).wait_status));
}

void require_ok(RankProcesses& ranks, int world_size) {
    for (int rank = 0; rank < world_size; ++rank) {
        const RankProcesses::Result result = ranks.finish(rank, kHangGuard);
        INFO("rank " << rank << " printed: " << result.output);
        REQUIRE(result.output.ends_with("ok\n"));
        REQUIRE(result.wait_status == 0);
    }
}

// body(way, victim, random), with a victim of each round.
template <class Body>
void try_all_ways(int world_size, Body body) {
    const auto seed = std::random_device{}();
    std::mt19937 random(seed);
    const char* text = std::getenv("DDPRUN_KILLS");
    const int tries = text != nullptr ? std::atoi(text) : 1;
    for (const Way& way : kWays) {
        for (int i = 0; i < tries; ++i) {
            const int victim = static_cast<int>(random() % static_cast<unsigned>(world_size));
            INFO(way.name << ", seed " << seed << ", victim " << victim);
            body(way, victim, random);
        }
    }
}

void check_kills(const std::string& mode) {
    try_all_ways(4, [&](const Way& way, int victim, std::mt19937& random) {
        const auto ranks = start_ranks(way, 4, mode, victim);
        let_time_pass(random);
        ranks->kill(victim, SIGKILL);
        require_victim_named(*ranks, 4, victim);
    });
}

// Stops the victim until both others have printed `text`.
void check_stop(const std::string& mode, const std::string& text, bool told_when_stopped) {
    try_all_ways(3, [&](const Way& way, int victim, std::mt19937& random) {
        const auto ranks = start_ranks(way, 3, mode, victim);
        let_time_pass(random);
        ranks->kill(victim, SIGSTOP);
        int status = 0;
        REQUIRE(::waitpid(ranks->process_id(victim), &status, WUNTRACED) > 0);
        REQUIRE(WIFSTOPPED(status));
        const int others[] = {(victim + 1) % 3, (victim + 2) % 3};
        for (const int rank : others) {
            if (told_when_stopped) ranks->close_input(rank);
        }
        for (const int rank : others) ranks->wait_for(rank, text, kHangGuard);
        ranks->kill(victim, SIGCONT);
        for (const int rank : others) ranks->close_input(rank);
        require_ok(*ranks, 3);
    });
}

}  // namespace

TEST_CASE("a rank killed while it and others wait to receive is named", "[messages][killed]") {
    check_kills("waiting");
}

TEST_CASE("a rank killed while large sends wait for their receives is named", "[messages][killed]") {
    check_kills("offered");
}

TEST_CASE("a rank killed in the middle of large messages is named", "[messages][killed]") {
    check_kills("transfer");
}

TEST_CASE("a rank that dies when half of a message is through is named", "[messages][killed]") {
    try_all_ways(4, [](const Way& way, int victim, std::mt19937&) {
        require_victim_named(*start_ranks(way, 4, "half", victim), 4, victim);
    });
}

TEST_CASE("a rank that is stopped makes limits pass, and messages come right when it goes on",
          "[messages][stopped]") {
    check_stop("stopped", "limits passed", true);
}

TEST_CASE("a rank stopped in the middle of large messages gets and sends the later ones whole",
          "[messages][stopped]") {
    check_stop("stopped-transfer", "timed out", false);
}

TEST_CASE("messages come right where the system refuses to copy from another process",
          "[messages][refused]") {
    for (const char* error : {"EPERM", "ENOSYS"}) {
        INFO(error);
        require_ok(*start_ranks({"refused", false, error}, 3, "check"), 3);
    }
}

TEST_CASE("messages come right from memory that only their sender can read", "[messages][refused]") {
    const auto ranks = start_ranks(kWays[0], 3, "secret");
    const RankProcesses::Result first = ranks->finish(0, kHangGuard);
    if (first.output == "unavailable\n") return;  // There is no such memory here.
    INFO(first.output);
    REQUIRE(first.output == "ok\n");
    for (const int rank : {1, 2}) REQUIRE(ranks->finish(rank, kHangGuard).output == "ok\n");
}
