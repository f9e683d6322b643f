#include "launcher/report/failure_report.hpp"

#include <csignal>
#include <random>
#include <regex>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Manner = RankEnd::Manner;
using Lines = std::vector<std::string>;

RankEnd end_of(int rank, Manner manner, int exit_code = 0, int signal = 0) {
    RankEnd end{.rank = rank, .local_rank = rank % 4, .node_rank = rank / 4, .host = "h", .pid = 100 + rank};
    end.manner = manner;
    end.exit_code = exit_code;
    end.signal = signal;
    return end;
}

Finish finish_of(std::vector<RankEnd> others) {
    Finish finish;
    for (const RankEnd& end : others) {
        if (end.manner == Manner::failed) ++finish.failed_too;
        if (end.manner == Manner::stopped) ++finish.stopped;
        if (end.manner == Manner::lost) ++finish.lost;
        if (end.manner == Manner::succeeded) ++finish.succeeded;
    }
    finish.others = std::move(others);
    return finish;
}

}  // namespace

TEST_CASE("ends: one line each, every manner told apart") {
    const Finish finish = finish_of({end_of(1, Manner::failed, 3), end_of(9, Manner::lost),
                                     end_of(2, Manner::stopped, 143, SIGTERM), end_of(3, Manner::succeeded)});
    CHECK(end_lines(finish, 4) ==
          Lines{"rank 1 (local rank 1) on node 0 (h), pid 101: failed too, exit code 3",
                "rank 9 (local rank 1) on node 2 (h), pid 109: lost",
                "rank 2 (local rank 2) on node 0 (h), pid 102: stopped by ddprun, signal 15 (SIGTERM)",
                "rank 3 (local rank 3) on node 0 (h), pid 103: succeeded"});
    CHECK(end_lines(Finish{}, 1).empty());
    RankEnd killed = end_of(4, Manner::stopped, 137, SIGKILL);
    killed.outlasted_grace = true;
    CHECK(end_lines(finish_of({killed}), 1) ==
          Lines{"rank 4 (local rank 0) on node 1 (h), pid 104: stopped by ddprun, signal 9 (SIGKILL) when "
                "--grace had passed"});
}

TEST_CASE("ends: those that ended alike share a line where room is short") {
    Finish finish = finish_of({end_of(9, Manner::failed, 3), end_of(0, Manner::stopped, 0),
                               end_of(2, Manner::stopped, 0), end_of(1, Manner::stopped, 0),
                               end_of(5, Manner::stopped, 137, SIGKILL), end_of(7, Manner::stopped, 0)});
    CHECK(end_lines(finish, 6).size() == 6);
    CHECK(end_lines(finish, 5) ==
          Lines{"rank 9 (local rank 1) on node 2 (h), pid 109: failed too, exit code 3",
                "ranks 0-2,7: stopped by ddprun, exit code 0",
                "rank 5 (local rank 1) on node 1 (h), pid 105: stopped by ddprun, signal 9 (SIGKILL)"});
    CHECK(end_lines(finish, 2) ==
          Lines{"rank 9 (local rank 1) on node 2 (h), pid 109: failed too, exit code 3",
                "and 5 more: 5 stopped by ddprun"});
    CHECK(end_lines(finish, 1) == Lines{"the other 6 ranks: 1 failed too, 5 stopped by ddprun"});
    finish.stopped = 1000;
    finish.lost = 8;
    CHECK(end_lines(finish, 7).back() == "and 1003 more: 8 lost, 995 stopped by ddprun");
    CHECK(end_lines(finish, 7).size() == 7);
    CHECK(end_lines(finish, 6).size() == 4);
}

TEST_CASE("ends: whoever leaves the counts out still gets every rank") {
    Finish finish = finish_of({end_of(1, Manner::failed, 3), end_of(2, Manner::failed, 4)});
    finish.failed_too = 0;
    CHECK(end_lines(finish, 2).size() == 2);
    CHECK(end_lines(finish, 1) == Lines{"the other 2 ranks: 2 failed too"});
    Finish alone;
    alone.succeeded = 1;
    CHECK(end_lines(alone, 3) == Lines{"the other rank: 1 succeeded"});
}

TEST_CASE("ends: every rank is shown or counted, in any room") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int repeat = 0; repeat < 300; ++repeat) {
        std::vector<RankEnd> others;
        const int listed = static_cast<int>(random() % 21);
        for (int rank = 0; rank < listed; ++rank)
            others.push_back(
                end_of(rank * 2, static_cast<Manner>(random() % 4), static_cast<int>(random() % 3)));
        Finish finish = finish_of(others);
        const int unlisted = static_cast<int>(random() % 5);
        finish.stopped += unlisted;
        const std::size_t room = 1 + random() % 30;
        const auto lines = end_lines(finish, room);
        REQUIRE(lines.size() <= room);
        int seen = 0;
        for (const std::string& line : lines) {
            std::smatch found;
            if (std::regex_search(line, found, std::regex("^(?:and|the other) (\\d+)"))) {
                seen += std::stoi(found[1]);
            } else {
                const std::string ranks = line.substr(0, line.find_first_of("(:"));
                seen += 1 + static_cast<int>(std::count(ranks.begin(), ranks.end(), ','));
            }
        }
        REQUIRE(seen == listed + unlisted);
    }
}

}  // namespace ddprun
