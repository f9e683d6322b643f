#include "launcher/report/failure_report.hpp"

#include <algorithm>
#include <csignal>
#include <random>
#include <regex>

#include "launcher/harmless_text.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

Failure worker_failure() {
    Failure failure;
    failure.kind = Failure::Kind::worker_failed;
    failure.node_rank = 1;
    failure.host = "gpu07";
    failure.rank = 5;
    failure.local_rank = 1;
    failure.pid = 4242;
    failure.exit_code = 7;
    return failure;
}

ReportFacts facts_of(const Failure& failure, int exit_code) {
    ReportFacts facts{.entry_name = "train.py"};
    facts.finish.exit_code = exit_code;
    facts.finish.cause = failure;
    return facts;
}

std::string report_of(const Failure& failure, int exit_code) {
    return failure_report(facts_of(failure, exit_code));
}

std::vector<std::string> numbered(const std::string& text, std::size_t count) {
    std::vector<std::string> lines;
    for (std::size_t i = 1; i <= count; ++i) lines.push_back(text + std::to_string(i));
    return lines;
}

std::vector<RankEnd> stopped_ranks(int count) {
    std::vector<RankEnd> ends;
    for (int rank = 0; static_cast<int>(ends.size()) < count; ++rank) {
        if (rank == 5) continue;
        RankEnd end{
            .rank = rank, .local_rank = rank % 4, .node_rank = rank / 4, .host = "gpu06", .pid = 100 + rank};
        end.exit_code = 143;
        end.signal = SIGTERM;
        end.manner = RankEnd::Manner::stopped;
        ends.push_back(end);
    }
    return ends;
}

}  // namespace

TEST_CASE("report: a worker that exited") {
    CHECK(report_of(worker_failure(), 7) ==
          "train.py failed; first failure: rank 5 (local rank 1) on node 1 (gpu07), pid 4242: exit code 7\n"
          "  exiting with code 7\n"
          "  survivors: 0");
}

TEST_CASE("report: what others did when it failed stands below it; a time-out names who is waited for") {
    using Manner = RanksDoing::Manner;
    Failure failure = worker_failure();
    failure.message = "rank 5 raised first";
    failure.hint = "a hint";
    failure.others = {{{{0, 2}, {4, 4}}, Manner::waited, "waited in all_reduce (train.py:140)"},
                      {{{3, 3}}, Manner::stood, "slept in next_batch (data.py:88)"}};
    const std::string head =
        "train.py failed; first failure: rank 5 (local rank 1) on node 1 (gpu07), pid 4242: exit code 7\n"
        "  rank 5 raised first\n";
    CHECK(report_of(failure, 7) ==
          head +
              "  others when it failed: rank 3 slept in next_batch (data.py:88); ranks 0-2,4 waited in "
              "all_reduce (train.py:140)\n"
              "  hint: a hint\n"
              "  exiting with code 7\n"
              "  survivors: 0");
    failure.error_message = "RuntimeError: Timed out waiting 3000ms for recv operation to complete";
    failure.left = {{{{3, 3}}, Manner::stood, "slept in close (data.py:99)"}};
    CHECK(doing_lines(failure) ==
          std::vector<std::string>{
              "others when it failed: rank 3 slept in next_batch (data.py:88); ranks 0-2,4 waited for it in "
              "all_reduce (train.py:140); rank 5 gave up first",
              "left at half of the grace: rank 3 slept in close (data.py:99)"});
    // A rank that another one blames has not given up.
    failure.witness = 1;
    failure.accusation = "timed out";
    failure.left.clear();
    CHECK(doing_lines(failure) ==
          std::vector<std::string>{"ranks when rank 1 failed: rank 3 slept in next_batch (data.py:88); "
                                   "ranks 0-2,4 waited in all_reduce (train.py:140)"});
}

TEST_CASE("report: a worker that a signal ended, and when") {
    Failure failure = worker_failure();
    failure.exit_code = 139;
    failure.signal = SIGSEGV;
    failure.core_dumped = true;
    failure.unix_time_ms = 1'714'559'696'789;
    ReportFacts facts = facts_of(failure, 139);
    facts.utc_offset = std::chrono::hours(2);
    CHECK(failure_report(facts) ==
          "train.py failed; first failure: rank 5 (local rank 1) on node 1 (gpu07), pid 4242: "
          "signal 11 (SIGSEGV, core dumped)\n"
          "  at 2024-05-01 12:34:56.789 +0200\n"
          "  exiting with code 139\n"
          "  survivors: 0");
}

TEST_CASE("report: a worker that another one blames, by that one's words") {
    Failure failure = worker_failure();
    failure.pid = 0;  // as of a rank of which nothing is known
    failure.witness = 3;
    failure.accusation = "does not answer";
    failure.testimony = "barrier() as call 3: rank 5 does not answer";
    failure.last_lines = {"x"};
    CHECK(report_of(failure, 7) ==
          "train.py failed; first failure: rank 5 (local rank 1) on node 1 (gpu07): does not answer "
          "(rank 3 says: barrier() as call 3: rank 5 does not answer)\n"
          "  rank 3's last lines on stderr:\n"
          "    | x\n"
          "  exiting with code 7\n"
          "  survivors: 0");
}

TEST_CASE("report: a worker that could not be started") {
    Failure failure = worker_failure();
    failure.pid = 0;
    failure.exit_code = 127;
    failure.message = "cannot start './nope': no such file";
    CHECK(report_of(failure, 127) ==
          "train.py failed; first failure: rank 5 (local rank 1) on node 1 (gpu07) could not be started\n"
          "  cannot start './nope': no such file\n"
          "  exiting with code 127\n"
          "  survivors: 0");
}

TEST_CASE("report: a worker that ran on when others had ended") {
    Failure failure = worker_failure();
    failure.kind = Failure::Kind::overdue;
    failure.exit_code = 124;
    failure.message = "still running 30 s after rank 0 had ended with 0 (--exit-wait 30:kill)";
    CHECK(
        report_of(failure, 124) ==
        "train.py was stopped, because rank 5 (local rank 1) on node 1 (gpu07), pid 4242, was still running "
        "30 s after rank 0 had ended with 0 (--exit-wait 30:kill)\n"
        "  exiting with code 124\n"
        "  survivors: 0");
}

TEST_CASE("report: a job that hung") {
    Failure failure = worker_failure();
    failure.kind = Failure::Kind::hang;
    failure.exit_code = 124;
    failure.message = "rank 5 (gpu07) sleeps in next_batch (data.py:88)";
    CHECK(report_of(failure, 124) ==
          "train.py was stopped, because it hangs: rank 5 (gpu07) sleeps in next_batch (data.py:88)\n"
          "  exiting with code 124\n"
          "  survivors: 0");
}

TEST_CASE("report: a time limit, which nobody sent as a signal") {
    Failure failure;
    failure.kind = Failure::Kind::signalled;
    failure.signal = SIGTERM;
    failure.message = "the time limit (--time-limit 2h) has passed";
    CHECK(report_of(failure, 143) ==
          "train.py was stopped, because the time limit (--time-limit 2h) has passed\n"
          "  exiting with code 143\n"
          "  survivors: 0");
}

TEST_CASE("report: a lost node") {
    Failure failure;
    failure.kind = Failure::Kind::node_lost;
    failure.node_rank = 3;
    failure.host = "gpu03";
    failure.message = "connection reset";
    CHECK(report_of(failure, 69) ==
          "train.py was stopped, because node 3 (gpu03) was lost\n"
          "  connection reset\n"
          "  exiting with code 69\n"
          "  survivors: 0");
    failure.host.clear();
    CHECK_THAT(report_of(failure, 69), Catch::StartsWith("train.py was stopped, because node 3 was lost\n"));
}

TEST_CASE("report: a signal to an agent") {
    Failure failure;
    failure.kind = Failure::Kind::signalled;
    failure.node_rank = 0;
    failure.host = "login";
    failure.signal = SIGTERM;
    CHECK(report_of(failure, 143) ==
          "train.py was stopped by SIGTERM sent to ddprun on node 0 (login)\n"
          "  exiting with code 143\n"
          "  survivors: 0");
}

TEST_CASE("report: hint, restarts, the coordinator's message and survivors") {
    Failure failure = worker_failure();
    failure.unix_time_ms = 1'714'559'696'789;
    failure.hint = "shared memory has run out";
    ReportFacts facts = facts_of(failure, 7);
    facts.restarts = 3;
    facts.max_restarts = 3;
    facts.finish.restarts = {{0, "rank 1: exit code 1", 1}, {1, "rank 2: exit code 1", 2}};
    facts.finish.message = "no restart is left";
    facts.survivors = {"pid 17 (python3)", "pid 18 (nfsd, state D)"};
    CHECK(failure_report(facts) ==
          "train.py failed; first failure: rank 5 (local rank 1) on node 1 (gpu07), pid 4242: exit code 7\n"
          "  at 2024-05-01 10:34:56.789 +0000; restarts so far: 3 of 3, the last one because of: rank 2: "
          "exit code 1\n"
          "  hint: shared memory has run out\n"
          "  no restart is left\n"
          "  exiting with code 7\n"
          "  survivors: 2: pid 17 (python3), pid 18 (nfsd, state D)");
    facts.survivors = numbered("pid ", 9);
    CHECK_THAT(failure_report(facts),
               Catch::EndsWith("survivors: 9: pid 1, pid 2, pid 3, pid 4, pid 5 and 4 more"));
    facts.logs = "/logs/" + std::string(1000, 'x') + "/attempt_0 (rank 5: 1/stderr.log)";
    CHECK_THAT(failure_report(facts), Catch::EndsWith("4 more\n  logs: " + facts.logs));
}

TEST_CASE("report: an error file's message and traceback, and last lines that say something else") {
    Failure failure = worker_failure();
    failure.error_message = "ValueError: boom";
    failure.traceback =
        "Traceback (most recent call last):\n  File \"train.py\", line 3\n\tValueError: boom\n";
    failure.last_lines = {"something else"};
    CHECK(report_of(failure, 7) ==
          "train.py failed; first failure: rank 5 (local rank 1) on node 1 (gpu07), pid 4242: exit code 7\n"
          "  its error file says:\n"
          "    | ValueError: boom\n"
          "    | Traceback (most recent call last):\n"
          "    |   File \"train.py\", line 3\n"
          "    |     ValueError: boom\n"
          "  its last lines on stderr:\n"
          "    | something else\n"
          "  exiting with code 7\n"
          "  survivors: 0");
}

TEST_CASE("report: a long traceback keeps its head and its tail") {
    Failure failure = worker_failure();
    failure.error_message = "ValueError: boom";
    failure.traceback = "Traceback:\n";
    for (const std::string& line : numbered("frame ", 100)) failure.traceback += line + "\n";
    failure.traceback += "ValueError: boom\n";
    const std::string report = report_of(failure, 7);
    CHECK_THAT(report, Catch::Contains("    | ValueError: boom\n    | Traceback:\n    | frame 1\n"));
    CHECK_THAT(report, Catch::Contains("    | frame 100\n    | ValueError: boom\n"));
    CHECK_THAT(report, Catch::Contains("    | ... 84 lines left out ...\n"));
    CHECK(lines_of(report).size() == 24);
}

TEST_CASE("report: twenty last lines and seven others fit") {
    Failure failure = worker_failure();
    failure.last_lines = numbered("line ", 20);
    failure.last_lines[4].clear();
    failure.unix_time_ms = 1;
    ReportFacts facts = facts_of(failure, 7);
    facts.finish.others = stopped_ranks(7);
    facts.finish.others[3].manner = RankEnd::Manner::failed;
    facts.finish.others[3].signal = 0;
    facts.finish.others[3].exit_code = 1;
    facts.finish.failed_too = 1;
    facts.finish.stopped = 6;
    const std::string report = failure_report(facts);
    CHECK_THAT(report, Catch::Contains("  its last lines on stderr:\n    | line 1\n"));
    CHECK_THAT(report, Catch::Contains("    | line 4\n    | \n    | line 6\n"));
    CHECK_THAT(report,
               Catch::Contains("    | line 20\n"
                               "  ranks 0-2,4,6-7: stopped by ddprun, signal 15 (SIGTERM)\n"
                               "  rank 3 (local rank 3) on node 0 (gpu06), pid 103: failed too, exit code 1\n"
                               "  exiting with code 7\n"
                               "  survivors: 0"));
    CHECK(lines_of(report).size() == 27);
}

TEST_CASE("report: what a worker wrote does no harm") {
    Failure failure = worker_failure();
    failure.host = "g\rpu\n07";
    failure.last_lines = {"\x1b[31mred\x1b[0m \x1b]0;title\a10%\r20%\r", "bell\a back\b",
                          std::string("nul\0byte", 8), "two\nlines", "\xff\xfe"};
    ReportFacts facts = facts_of(failure, 7);
    facts.entry_name = "tr\x1b[2Jain";
    const std::string report = failure_report(facts);
    CHECK_THAT(report, Catch::StartsWith("train failed;"));
    CHECK_THAT(report, Catch::Contains("(g?pu?07)"));
    CHECK_THAT(report, Catch::Contains("    | bell? back?\n    | nul?byte\n    | two?lines\n    | "
                                       "\xEF\xBF\xBD\xEF\xBF\xBD\n"));
    CHECK_THAT(report, Catch::Contains("\n    | 20%\n"));
}

namespace {

class RandomFacts {
  public:
    explicit RandomFacts(unsigned seed) : random_(seed) {}

    ReportFacts next() {
        ReportFacts facts{.entry_name = text(40)};
        Finish& finish = facts.finish;
        finish.exit_code = number(256);
        finish.cause = failure();
        finish.message = text(600);
        finish.others.resize(static_cast<std::size_t>(number(kMaxOthersListed + 1)));
        for (RankEnd& end : finish.others) end = rank_end();
        finish.failed_too = number(30);
        finish.stopped = number(2000);
        finish.lost = number(2) * number(50);
        finish.succeeded = number(2) * number(50);
        finish.restarts.resize(static_cast<std::size_t>(number(4)));
        for (Restart& restart : finish.restarts) restart.reason = text(300);
        facts.restarts = number(4);
        facts.max_restarts = number(4);
        facts.survivors.resize(static_cast<std::size_t>(number(2) * number(40)));
        for (std::string& survivor : facts.survivors) survivor = text(200);
        facts.logs = text(3000);
        return facts;
    }

    int number(std::size_t below) { return static_cast<int>(random_() % below); }

  private:
    Failure failure() {
        Failure cause = worker_failure();
        cause.kind = static_cast<Failure::Kind>(number(3));
        cause.host = text(30);
        cause.pid = number(2) * 77;
        cause.signal = number(2) * number(80);
        cause.unix_time_ms = static_cast<std::int64_t>(random_()) << number(32);
        cause.message = text(500);
        cause.error_message = text(3000);
        cause.traceback = text(8000);
        cause.hint = text(500);
        cause.last_lines.resize(static_cast<std::size_t>(number(kMaxLastLines + 1)));
        for (std::string& line : cause.last_lines) line = text(kMaxLastLineText);
        return cause;
    }

    RankEnd rank_end() {
        RankEnd end{
            .rank = number(2000), .local_rank = number(8), .node_rank = number(250), .host = text(30)};
        end.exit_code = number(3);
        end.signal = number(2) * SIGKILL;
        end.manner = static_cast<RankEnd::Manner>(number(4));
        return end;
    }

    // Empty, of printable characters, or of any bytes; with newlines.
    std::string text(std::size_t most) {
        std::string bytes(static_cast<std::size_t>(number(3) == 0 ? 0 : number(most)), 'x');
        const bool wild = number(2) == 0;
        for (char& c : bytes)
            c = static_cast<char>(wild ? number(256) : (number(30) == 0 ? '\n' : 32 + number(95)));
        return bytes;
    }

    std::mt19937 random_;
};

}  // namespace

TEST_CASE("report: thirty lines at most and nothing but text, whatever the facts") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    RandomFacts random(seed);
    for (int repeat = 0; repeat < 400; ++repeat) {
        const ReportFacts facts = random.next();
        const std::string report = failure_report(facts);
        auto lines = lines_of(report);
        INFO(report);
        REQUIRE(lines.size() <= kMaxReportLines);
        if (!facts.logs.empty()) {
            REQUIRE(lines.back().substr(0, 8) == "  logs: ");
            REQUIRE(harmless_line(lines.back(), lines.back().size()) == lines.back());
            lines.pop_back();
        }
        REQUIRE(lines.back().substr(0, 12) == "  survivors:");
        REQUIRE(lines[lines.size() - 2] == "  exiting with code " + std::to_string(facts.finish.exit_code));
        for (const std::string_view line : lines) {
            REQUIRE(line.size() <= kMaxShownLine);
            REQUIRE(harmless_line(line) == line);
        }
    }
}

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
