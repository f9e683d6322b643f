#include "launcher/output/launcher_log.hpp"

#include <sys/stat.h>

#include <regex>
#include <thread>

#include "tests/launcher/output/pump_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// Of each line what stands behind the time; the thread's number is left out.
std::string without_time(const std::filesystem::path& path) {
    static const std::regex line(
        R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [+-]\d\d:\d\d (\S+ [a-z]+) \[\d+\] (.*\n))");
    return std::regex_replace(text_of(path), line, "$1 $2");
}

}  // namespace

TEST_CASE(
    "launcher log: the file has every line whatever stderr shows, behind what was there, for its owner") {
    TemporaryFolder folder;
    const std::string path = folder.path() / "launcher.log";
    {
        LauncherLog log(Verbosity::quiet);
        log.info("before");
        REQUIRE_FALSE(log.open_file(path, "node7"));
        log.info("first\nsecond");
        log.debug("third");
        log.debug("");
    }
    LauncherLog again(Verbosity::quiet);
    REQUIRE_FALSE(again.open_file(path, "node8"));
    again.info("fourth");
    CHECK(without_time(path) ==
          "node7 info first\nnode7 info second\nnode7 debug third\nnode8 info fourth\n");
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("launcher log: what comes from elsewhere reaches no terminal and no file as it is") {
    struct Row {
        std::string said, shown;
    };
    const Row rows[] = {
        {"\x1b]0;title\atext", "text"},  // OSC
        {"a\x1b[2Jb", "ab"},             // CSI
        {"a\x9b"
         "2Jb",
         "a\xef\xbf\xbd"
         "2Jb"},  // C1 as a byte
        {"a\xc2\x9b"
         "2Jb",
         "a?2Jb"},  // C1 as UTF-8
        {"gpu\xe2\x80\xae"
         "7",
         "gpu?7"},  // bidirectional
        {"a\rddprun: b", "a?ddprun: b"},
        {std::string("a\0b", 3), "a?b"},
    };
    TemporaryFolder folder;
    const std::string path = folder.path() / "launcher.log";
    std::string shown, kept;
    {
        LauncherLog log;
        REQUIRE_FALSE(log.open_file(path, "node7"));
        PumpRun run;
        log.speak_by(&run.pump());
        for (const Row& row : rows) {
            log.warn(row.said);
            shown += "ddprun: " + row.shown + "\n";
            kept += "node7 warning " + row.shown + "\n";
        }
        run.drain();
        run.pump().stop();
        log.speak_by(nullptr);
        run.close();
        CHECK(run.err.all() == shown);
    }
    CHECK(without_time(path) == kept);
}

TEST_CASE("launcher log: a line that another machine made too long is cut") {
    LauncherLog log;
    PumpRun run;
    log.speak_by(&run.pump());
    log.warn(std::string(1'000'000, 'x'));
    run.drain();
    run.pump().stop();
    log.speak_by(nullptr);
    run.close();
    const std::string shown = run.err.all();
    CHECK(shown.size() == std::string("ddprun: \n").size() + 16 * 1024);
    CHECK(shown.ends_with("x...\n"));
}

TEST_CASE("launcher log: by the pump, levels as asked, and directly after it") {
    TemporaryFolder folder;
    const std::string path = folder.path() / "launcher.log";
    const auto verbosity = GENERATE(Verbosity::quiet, Verbosity::usual, Verbosity::verbose);
    LauncherLog log(verbosity);
    REQUIRE_FALSE(log.open_file(path, "node7"));
    PumpRun run;
    log.speak_by(&run.pump());
    log.debug("a");
    log.info("b");
    log.warn("c");
    log.error("d\ne");
    run.drain();
    run.pump().stop();
    log.speak_by(nullptr);
    log.set_verbosity(Verbosity::quiet);
    log.debug("after");
    run.close();
    const std::string shown = verbosity == Verbosity::quiet   ? ""
                              : verbosity == Verbosity::usual ? "ddprun: b\n"
                                                              : "ddprun: a\nddprun: b\n";
    CHECK(run.err.all() == shown + "ddprun: c\nddprun: d\nddprun: e\n");
    CHECK(run.out.all().empty());
    CHECK(without_time(path) ==
          "node7 debug a\nnode7 info b\nnode7 warning c\nnode7 error d\nnode7 error e\nnode7 debug after\n");
}

TEST_CASE("launcher log: a file that takes nothing is said once") {
    LauncherLog log;
    REQUIRE_FALSE(log.open_file("/dev/full", "node7"));
    PumpRun run;
    log.speak_by(&run.pump());
    log.debug("a");
    log.debug("b");
    run.drain();
    run.pump().stop();
    log.speak_by(nullptr);
    log.debug("c");
    run.close();
    REQUIRE(run.notices.size() == 1);
    CHECK(run.notices[0] ==
          "cannot write /dev/full (--log-file): No space left on device; lines are lost there, "
          "the job goes on");
    CHECK(run.losses.empty());
}

TEST_CASE("launcher log: a file that cannot be opened") {
    TemporaryFolder folder;
    const std::string path = folder.path();
    LauncherLog log;
    CHECK(log.open_file(path, "") == "--log-file '" + path + "': cannot be opened: Is a directory");
    CHECK(log.open_file(path + "/no/file", "") ==
          "--log-file '" + path + "/no/file': cannot be opened: No such file or directory");
}

TEST_CASE("launcher log: lines of several launchers in one file are whole") {
    constexpr int kWriters = 4;
    constexpr int kLines = 2000;
    TemporaryFolder folder;
    const std::string path = folder.path() / "launcher.log";
    std::vector<std::thread> writers;
    for (int writer = 0; writer < kWriters; ++writer) {
        writers.emplace_back([&path, writer] {
            LauncherLog log;
            if (log.open_file(path, "node" + std::to_string(writer))) return;
            for (int i = 0; i < kLines; ++i) log.debug(std::to_string(i));
        });
    }
    for (std::thread& writer : writers) writer.join();
    const std::string text = without_time(path);
    for (int writer = 0; writer < kWriters; ++writer) {
        std::string expected;
        for (int i = 0; i < kLines; ++i) expected += std::to_string(i) + "\n";
        CHECK(lines_with(text, "node" + std::to_string(writer) + " debug ") == expected);
    }
}

}  // namespace ddprun
