#include "launcher/output/output_pump.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "launcher/output/worker_channel.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "tests/launcher/output/pump_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
TEST_CASE("lines of many ranks in random chunks: none torn, lost or out of order, console equal to files") {
    constexpr int kRanks = 8;
    constexpr int kLines = 10'000;
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    PumpRun run(teed());
    for (int rank = 0; rank < kRanks; ++rank) {
        run.start(rank,
                  {"scatter", std::to_string(seed + static_cast<unsigned>(rank)), std::to_string(kLines)});
    }
    run.out.read_on();
    run.err.read_on();
    run.end();
    CHECK(run.losses.empty());
    CHECK(run.notices.empty());
    const std::string out = run.out.all();
    const std::string err = run.err.all();
    std::size_t out_lines = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
        const std::string prefix = "[trainer" + std::to_string(rank) + "]:";
        const auto folder = folder_of(run.error_files[rank]);
        const std::string out_file = text_of(folder / "stdout.log");
        const std::string err_file = text_of(folder / "stderr.log");
        CHECK(lines_with(out, prefix) == out_file);
        CHECK(lines_with(err, prefix) == err_file);
        std::istringstream lines(out_file);
        const std::string name = "o" + std::to_string(seed + static_cast<unsigned>(rank));
        int wrong = 0;
        int count = 0;
        for (std::string line; std::getline(lines, line); ++count) {
            if (line.rfind(name + " " + std::to_string(count) + " ", 0) != 0) ++wrong;
        }
        CHECK(wrong == 0);
        CHECK(count == kLines);
        out_lines += static_cast<std::size_t>(count);
    }
    CHECK(static_cast<std::size_t>(std::count(out.begin(), out.end(), '\n')) == out_lines);
}

TEST_CASE("without any flag one worker's bytes come out as they are, streams apart, no file is left") {
    PumpRun run;
    run.start(0, {"out", "one\\ntwo\\nlast without newline", "err", "\\e[1mbold\\e[0m\\n"});
    run.end();
    CHECK(run.out.all() == "one\ntwo\nlast without newline");
    CHECK(run.err.all() == "\x1b[1mbold\x1b[0m\n");
    CHECK(std::filesystem::is_empty(run.temporary()));
}

TEST_CASE("a worker killed in the middle of a line: its bytes are in the file and on the console") {
    OutputOptions options = teed();
    options.prefix = "none";
    PumpRun run(options);
    run.start(0, {"out", "whole\\nhalf", "err", "30%\\r60%", "kill"});
    run.end();
    CHECK(run.out.all() == "whole\nhalf");
    CHECK(run.err.all() == "60%");
    CHECK(text_of(folder_of(run.error_files[0]) / "stdout.log") == "whole\nhalf");
    CHECK(text_of(folder_of(run.error_files[0]) / "stderr.log") == "60%");
}

TEST_CASE("last lines are there once the worker has ended, and after it was finished") {
    OutputOptions options;
    options.redirects = "3";
    PumpRun run(options);
    std::vector<std::string> modes;
    for (int i = 0; i < 30; ++i) {
        modes.push_back("err");
        modes.push_back("line " + std::to_string(i) + "\\n");
    }
    modes.insert(modes.end(), {"err", "the end", "kill"});
    run.start(3, modes);
    run.run_until_gone(1);
    auto lines = run.last_lines(3);
    const auto guard = std::chrono::steady_clock::now() + kHangGuard;
    // The pump may answer late.
    while (lines.empty() && std::chrono::steady_clock::now() < guard) lines = run.last_lines(3);
    REQUIRE(lines.size() == 20);
    CHECK(lines.front() == "line 11");
    CHECK(lines.back() == "the end");
    run.run_until_finished();
    CHECK(run.last_lines(3) == lines);
    CHECK(run.last_lines(4).empty());
    SECTION("and can be replayed when stderr was not shown") {
        run.pump().replay_stderr(3);
        run.end();
        const std::string err = run.err.all();
        CHECK(err.rfind("line 11\nline 12\n", 0) == 0);
        CHECK(err.find("line 29\nthe end\n") != std::string::npos);
    }
}

TEST_CASE("what was shown is not replayed") {
    PumpRun run;
    run.start(0, {"err", "once\\n"});
    run.run_until_finished();
    run.pump().replay_stderr(0);
    run.end();
    CHECK(run.err.all() == "once\n");
}

TEST_CASE("a process outside the worker's group that keeps the streams open does not hold the end") {
    const std::string mode = GENERATE("keep-open", "babble");
    PumpRun run;
    run.err.read_on();
    run.start(0, {mode, "out", "the worker's last"});
    run.end();
    const std::string out = run.out.all();
    CHECK(out.find("the worker's last") != std::string::npos);
    ::kill(std::stoi(out.substr(4)), SIGKILL);
}

TEST_CASE("an unfinished line can be read in its file while the worker runs") {
    PumpRun run(teed());
    const pid_t worker = run.start(0, {"out", "loading ...", "wait"});
    const auto path = folder_of(run.error_files[0]) / "stdout.log";
    const auto deadline = std::chrono::steady_clock::now() + kHangGuard;
    while (text_of(path).empty() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    CHECK(text_of(path) == "loading ...");
    run.kill(worker);
    run.end();
    CHECK(text_of(path) == "loading ...");
    CHECK(run.out.all() == "[trainer0]:loading ...");
}

TEST_CASE(
    "clients that ask are shown what has not ended its line, in its last state, and those that wait are not") {
    PumpRun run;
    const pid_t worker = run.start(0, {"out", "whole\\n\\rstep 1\\rstep 2", "wait"});
    run.start(1, {"err", "other", "wait"});
    const auto deadline = std::chrono::steady_clock::now() + kHangGuard;
    KeptPiece piece = run.read_kept({});
    while (piece.blocks.size() < 3 && std::chrono::steady_clock::now() < deadline) piece = run.read_kept({});
    REQUIRE(piece.blocks.size() == 3);
    CHECK((piece.is_all && piece.next == std::string("whole\n").size()));
    CHECK(piece.blocks[0].text == "whole\n");
    CHECK((piece.blocks[1].rank == 100 && piece.blocks[1].stream == "stdout" &&
           piece.blocks[1].text == "step 2"));
    // It stands where the line will: else what follows would look as if something were missing before it.
    CHECK(piece.blocks[1].at == std::string("whole\n").size());
    CHECK((piece.blocks[2].rank == 101 && piece.blocks[2].stream == "stderr" &&
           piece.blocks[2].text == "other"));
    const auto of_second = run.read_kept({.rank = 101}).blocks;
    REQUIRE(of_second.size() == 1);
    // Its time is that of the asking.
    CHECK((of_second[0].rank == 101 && of_second[0].text == "other"));
    CHECK(run.read_kept({.waits = true}).blocks == std::vector{piece.blocks[0]});
    run.kill(worker);
}

TEST_CASE("stdout and stderr that are the same thing do not tear each other's lines") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    ConsoleEnds both = pipe_console();
    OwnedDescriptor second(::fcntl(both.writer.get(), F_DUPFD_CLOEXEC, 3));
    ConsoleEnds error{OwnedDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)), std::move(second)};
    PumpRun run(OutputOptions(), std::move(both), std::move(error));
    for (int rank = 0; rank < 2; ++rank) run.start(rank, {"scatter", std::to_string(seed), "3000"});
    run.out.read_on();
    run.end();
    std::istringstream lines(run.out.all());
    int whole = 0;
    int torn = 0;
    for (std::string line; std::getline(lines, line);) {
        const bool begins = line.find(std::to_string(seed) + " ") == 1;
        ++(begins && line.find_first_of("oe", 1) == std::string::npos ? whole : torn);
    }
    CHECK(whole == 4 * 3000);
    CHECK(torn == 0);
}

TEST_CASE("filters copy lines of all ranks, hidden ranks too") {
    OutputOptions options;
    options.duplicate_stderr_filters = "loss,NaN";
    options.show = "100";
    PumpRun run(options);
    run.start(0, {"err", "loss 1\\nnothing\\n", "out", "seen\\n"});
    run.start(1, {"err", "a NaN", "out", "hidden\\n"});
    run.end();
    CHECK(run.out.all() == "seen\n");
    CHECK(run.err.all() == "loss 1\nnothing\n");
    const auto attempt = folder_of(run.error_files[0]).parent_path();
    const std::string filtered = text_of(attempt / "filtered_stderr.log");
    CHECK(lines_with(filtered, "[trainer0]:") == "loss 1\n");
    CHECK(lines_with(filtered, "[trainer1]:") == "a NaN\n");
    CHECK_FALSE(std::filesystem::exists(attempt / "filtered_stdout.log"));
    CHECK_FALSE(std::filesystem::exists(attempt / "0" / "stderr.log"));
}

TEST_CASE("every attempt has its own files, local ranks of any number of digits") {
    TemporaryFolder logs;
    OutputOptions options;
    options.redirects = "12:1";
    options.log_dir = logs.path() / "not" / "there" / "yet";
    PumpRun run(options);
    run.start(12, {"out", "first\\n"});
    run.run_until_finished();
    const std::string first = run.error_files[12];
    run.begin_round(1);
    run.start(12, {"out", "second\\n"});
    run.end();
    REQUIRE(run.run_folders.size() == 1);
    const RunFolder& folder = run.run_folders[0];
    CHECK(first.starts_with(folder.path + "/attempt_0/12/"));
    CHECK_THAT(folder.path, Catch::StartsWith(options.log_dir + "/job_") && !Catch::Contains("node"));
    CHECK((folder.job_id == "job-1" && folder.node_rank == 3));
    CHECK(first.find("/attempt_0/12/error.json") != std::string::npos);
    CHECK(text_of(folder_of(first) / "stdout.log") == "first\n");
    CHECK(text_of(folder_of(run.error_files[12]) / "stdout.log") == "second\n");
}

TEST_CASE("a log folder that several nodes may share has a folder of each, by name") {
    TemporaryFolder logs;
    const auto name_of = [&](const PathFacts& facts) {
        LogFolder folder(plan_of({.log_dir = logs.path()}), "/tmp");
        folder.round(facts, 0);
        return std::filesystem::path(folder.run()).filename().string();
    };
    CHECK_THAT(name_of({0, "job", "node7"}), Catch::Matches("job_[^_]{6}"));
    CHECK_THAT(name_of({0, "job", "node7", 3}), Catch::Matches("job_node3_node7_[^_]{6}"));
    CHECK_THAT(name_of({0, "a/b", "../x", 0}), Catch::Matches("a_b_node0__\\._x_[^_]{6}"));
    const std::string longest = name_of({0, std::string(500, 'j'), std::string(64, 'h'), kMaxNodes - 1});
    CHECK_THAT(longest, Catch::Contains("_" + std::string(64, 'h') + "_"));
}

TEST_CASE("the run's folder is for whom the umask says where the user has named the place") {
    TemporaryFolder logs;
    const auto mode_under = [&](unsigned mask, const std::string& chosen) {
        const auto before = ::umask(mask);
        LogFolder folder(plan_of({.redirects = "3", .log_dir = chosen}), logs.path().string());
        folder.round({0, "job", "a"}, 0);
        ::umask(before);
        struct stat info {};
        REQUIRE(::stat(folder.run().c_str(), &info) == 0);
        return info.st_mode & 0777;
    };
    CHECK(mode_under(022, logs.path()) == 0755);
    CHECK(mode_under(007, logs.path()) == 0770);
    CHECK(mode_under(000, logs.path()) == 0775);
    CHECK(mode_under(022, "") == 0700);
}

TEST_CASE("what somebody else has put in the place of a round's folder is not entered") {
    TemporaryFolder logs, victims;
    LogFolder folder(plan_of({.log_dir = logs.path()}), "/tmp");
    folder.round({0, "job", "a"}, 0);
    std::filesystem::create_directory_symlink(victims.path(), folder.run() + "/attempt_1");
    CHECK_THROWS_WITH(folder.round({0, "job", "a"}, 1), Catch::Contains("--log-dir"));
    const std::string own = folder.round({0, "job", "a"}, 2);
    CHECK(folder.round({0, "job", "a"}, 2) == own);
    std::filesystem::create_directory_symlink(victims.path(), own + "/0");
    CHECK_THROWS_WITH(folder.worker(own, 0), Catch::Contains("--log-dir"));
    CHECK(std::filesystem::is_empty(victims.path()));
}

TEST_CASE("without logs there is one folder for the error files, gone at the end if none was written") {
    PumpRun run;
    run.start(0, {"out", "x\\n"});
    run.start(11, {"out", "y\\n"});
    run.run_until_finished();
    const std::string first = run.error_files[0];
    CHECK(folder_of(first) == folder_of(run.error_files[11]));
    CHECK(folder_of(first).parent_path() == run.temporary());
    CHECK(std::filesystem::path(first).filename() == "attempt_0_0_error.json");
    CHECK(std::filesystem::path(run.error_files[11]).filename() == "attempt_0_11_error.json");
    run.begin_round(1);
    run.start(0, {"out", "z\\n"});
    run.end();
    CHECK(folder_of(run.error_files[0]) == folder_of(first));
    CHECK(std::filesystem::path(run.error_files[0]).filename() == "attempt_1_0_error.json");
    CHECK(std::filesystem::is_empty(run.temporary()));
}

TEST_CASE("the pipes of the first streams are large, those of many workers are not") {
    PumpRun run;
    std::vector<WorkerStreams> streams;
    for (int i = 0; i < kLargePipes / 2 + 1; ++i) streams.push_back(std::move(run.pump().open(i, i).front()));
    // The kernel may grant less.
    CHECK(::fcntl(streams.front().out.get(), F_GETPIPE_SZ) <= kLargePipeSize);
    CHECK(::fcntl(streams.back().out.get(), F_GETPIPE_SZ) <= kPipeSize);
    if (::geteuid() == 0) CHECK(::fcntl(streams.front().out.get(), F_GETPIPE_SZ) == kLargePipeSize);
    streams.clear();
    run.end();
}

TEST_CASE("/dev/null: no files and no error files") {
    OutputOptions options;
    options.tee = "1";
    options.redirects = "2";
    options.log_dir = "/dev/null";
    PumpRun run(options);
    run.start(0, {"out", "seen\\n", "err", "unseen\\n"});
    run.end();
    CHECK(run.error_files[0].empty());
    CHECK(run.out.all() == "[trainer0]:seen\n");
    CHECK(run.err.all().empty());
    CHECK(std::filesystem::is_empty(run.temporary()));
}

TEST_CASE("a log folder that cannot be made: refused where it was asked for, else only said") {
    TemporaryFolder folder;
    const std::string file = folder.file("file", "");
    OutputOptions options;
    options.log_dir = file + "/below";
    CHECK_THROWS_WITH(PumpRun(options), Catch::Contains("--log-dir") && Catch::Contains(file));
    CHECK(log_dir_complaint(plan_of(options)) ==
          "--log-dir '" + options.log_dir + "': cannot be made: Not a directory");
    options.log_dir = file;
    CHECK(log_dir_complaint(plan_of(options)) == "--log-dir '" + file + "': is there, but is no folder");
    options.log_dir = (folder.path() / "new" / "folder").string();
    CHECK_FALSE(log_dir_complaint(plan_of(options)));
    CHECK(std::filesystem::is_directory(options.log_dir));
    CHECK_FALSE(log_dir_complaint(OutputPlan()));
    CHECK_THAT(log_dir_complaint(plan_of({.log_dir = "/sys/no"})).value(), Catch::Contains("cannot be made"));
}

TEST_CASE("where the temporary files may not be, streams that go to files are shown, and that is said") {
    for (const char* flag : {"tee", "redirects"}) {
        OutputOptions options;
        (flag == std::string("tee") ? options.tee : options.redirects) = "3";
        PumpRun run(options, pipe_console(), pipe_console(), {}, "/sys");
        run.start(0, {"out", "to the console\\n", "err", "and this\\n"});
        run.end();
        CHECK_THAT(run.out.all(), Catch::EndsWith("to the console\n"));
        CHECK_THAT(run.err.all(), Catch::EndsWith("and this\n"));
        REQUIRE(run.notices.size() == 1);
        CHECK_THAT(run.notices[0], Catch::Contains("/sys/ddprun_") && Catch::Contains("--log-dir") &&
                                       Catch::Contains("shown here"));
    }
}

TEST_CASE("a log folder that vanishes while the job runs is made again for the next round") {
    TemporaryFolder folder;
    OutputOptions options;
    options.redirects = "3";
    if (GENERATE(true, false)) options.log_dir = (folder.path() / "logs").string();
    PumpRun run(options);
    run.start(0, {"err", "first\\n"});
    run.run_until_finished();
    const std::filesystem::path chosen = options.log_dir;
    const std::filesystem::path base = chosen.empty() ? run.temporary() : chosen;
    for (const auto& entry : std::filesystem::directory_iterator(base))
        std::filesystem::remove_all(entry.path());
    if (!chosen.empty()) std::filesystem::remove(chosen);
    run.begin_round(1);
    run.start(0, {"err", "second\\n"});
    run.run_until_finished();
    const std::string log = run.error_files[0].substr(0, run.error_files[0].rfind('/')) + "/stderr.log";
    CHECK_THAT(log, Catch::StartsWith(base.string()) && Catch::Contains("/attempt_1/0/"));
    CHECK(text_of(log) == "second\n");
    CHECK(run.notices.empty());
    run.end();
    CHECK(run.err.all().empty());
    REQUIRE(run.run_folders.size() == 2);
    CHECK(log.starts_with(run.run_folders[1].path + "/attempt_1/"));
}

TEST_CASE("where it cannot be made again, what should be in files is shown, and that is said") {
    TemporaryFolder folder;
    OutputOptions options;
    options.redirects = "3";
    options.log_dir = (folder.path() / "logs").string();
    PumpRun run(options);
    SECTION("before the round") {
        std::filesystem::remove_all(options.log_dir);
        std::ofstream(options.log_dir) << "in the way";
        run.begin_round(1);
    }
    SECTION("as it begins") {
        run.begin_round(1);
        std::filesystem::remove_all(options.log_dir);
    }
    run.start(0, {"out", "to the console\\n", "err", "and this\\n"});
    run.end();
    CHECK(run.error_files[0].empty());
    CHECK(run.out.all() == "to the console\n");
    CHECK(run.err.all() == "and this\n");
    REQUIRE(run.notices.size() == 1);
    CHECK_THAT(run.notices[0], Catch::Contains("--log-dir") && Catch::Contains("shown here"));
}

TEST_CASE("a file that cannot be written is said once, counted at the end, and stops nobody") {
    OutputOptions options = teed();
    PumpRun run(options);
    run.out.read_on();
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to make the log file a device that is always full");
        return;
    }
    run.start(0, {"out", "x\\n"});
    run.run_until_finished();
    std::filesystem::remove(folder_of(run.error_files[0]) / "stdout.log");
    const auto log = folder_of(run.error_files[0]) / "stdout.log";
    REQUIRE(::mknod(log.c_str(), S_IFCHR | 0600, makedev(1, 7)) == 0);
    run.start(0, {"flood", "300000", "100", "out", "end\\n"});
    run.end();
    REQUIRE(run.notices.size() == 1);
    CHECK(run.notices[0].find("stdout.log: No space left on device") != std::string::npos);
    REQUIRE(run.losses.size() == 1);
    CHECK(run.losses[0].find("300004 bytes of ") == 0);
    CHECK(run.out.all().find("[trainer0]:end\n") != std::string::npos);
}

}  // namespace ddprun
