// The output pump and consoles: those that take nothing, that go away, that are terminals.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/output/output_pump.hpp"
#include "launcher/output/pump_loop.hpp"
#include "launcher/output/worker_channel.hpp"
#include "tests/launcher/output/pump_fixture.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {

TEST_CASE("a console that takes nothing stops its workers, not the agent, and nothing is lost") {
    constexpr std::size_t kBytes = 3 << 20;
    PumpRun run;
    run.start(0, {"flood", std::to_string(kBytes), "64", "err", "done\\n"});
    run.start(1, {"err", "other\\n"});
    run.err.await("other\n");
    // The other rank has ended although nothing is read of stdout; the first one cannot.
    run.run_until_gone(1);
    CHECK(run.gone == 1);
    run.out.read_on();
    run.end();
    CHECK(run.out.all().size() == kBytes);
    CHECK(run.err.all().find("done\n") != std::string::npos);
    CHECK(run.losses.empty());
}

TEST_CASE("stop ends at once although the console takes nothing") {
    PumpRun run;
    const pid_t worker = run.start(0, {"err", "begun\\n", "flood", "3000000", "64"});
    run.err.await("begun\n");
    run.kill(worker);
    run.run_until_finished();
    run.close();
    CHECK(run.out.all().size() < 3'000'000);
}

TEST_CASE("a console that takes nothing is given up in the end: said how much, and the files are complete") {
    constexpr std::size_t kBytes = 100'000;
    PumpRun run(teed());
    // More than the console takes, but what is left fits into the worker's pipe: the worker can end.
    run.start(0, {"flood", std::to_string(kBytes), "100"});
    run.run_until_finished();
    SECTION("when its patience is over") { run.drain(std::chrono::milliseconds(20)); }
    SECTION("when nobody waits") {}
    run.close();
    CHECK(text_of(folder_of(run.error_files[0]) / "stdout.log").size() == kBytes);
    const std::size_t all = kBytes + kBytes / 100 * std::string("[trainer0]:").size();
    const std::size_t shown = run.out.all().size();
    CHECK(shown < all);
    REQUIRE(run.losses.size() == 1);
    CHECK(run.losses[0] ==
          std::to_string(all - shown) + " bytes could not be written to stdout, which took nothing more");
}

TEST_CASE("a console that nobody reads any more changes nothing for files and workers") {
    ConsoleEnds out = pipe_console();
    out.reader.reset();
    OutputOptions options = teed();
    PumpRun run(options, std::move(out), pipe_console());
    run.start(0, {"flood", "500000", "50", "err", "still there\\n"});
    run.end();
    CHECK(std::filesystem::file_size(folder_of(run.error_files[0]) / "stdout.log") == 500'000);
    CHECK(run.err.all() == "[trainer0]:still there\n");
}

TEST_CASE("workers see a terminal of the console's size where the console is one") {
    PumpRun run(OutputOptions(), terminal_console(), pipe_console());
    run.start(0, {"terminal"});
    run.end();
    CHECK(run.out.all() == "tty 100x30\nno tty\n");
}

TEST_CASE("what does not go to the terminal goes through a pipe") {
    OutputOptions options;
    options.redirects = "1";
    PumpRun run(options, terminal_console(), terminal_console());
    run.start(0, {"terminal"});
    run.end();
    CHECK(text_of(folder_of(run.error_files[0]) / "stdout.log") == "no tty\ntty 100x30\n");
}

TEST_CASE("a progress bar passes at the bottom of a terminal and stays in its last state") {
    PumpRun run(OutputOptions(), terminal_console(), pipe_console());
    const pid_t bar = run.start(0, {"out", "\\r10%\\r20%", "wait"});
    run.out.await("20%");
    run.start(1, {"out", "a line\\n"});
    run.out.await("\r\x1b[Ka line\n");
    run.pump().announce("ddprun: a word");
    run.err.await("ddprun: a word\n");
    run.kill(bar);
    run.run_until_finished();
    run.close();
    const std::string out = run.out.all();
    CHECK(out.find("10%") == std::string::npos);
    CHECK(out == "20%\r\x1b[Ka line\n20%");
}

TEST_CASE("the workers' terminals follow the size of the launcher's") {
    ConsoleEnds console = terminal_console();
    const int master = ::fcntl(console.reader.get(), F_DUPFD_CLOEXEC, 3);
    OwnedDescriptor keeper(master);
    PumpRun run(OutputOptions(), std::move(console), pipe_console());
    WorkerStreams streams = std::move(run.pump().open(0, 0).front());
    winsize size{};
    size.ws_col = 132;
    size.ws_row = 50;
    REQUIRE(::ioctl(master, TIOCSWINSZ, &size) == 0);
    run.pump().window_changed();
    winsize seen{};
    const auto guard = std::chrono::steady_clock::now() + kHangGuard;
    do {
        run.last_lines(0);  // answered behind it, or late
        REQUIRE(::ioctl(streams.out.get(), TIOCGWINSZ, &seen) == 0);
    } while (seen.ws_col != 132 && std::chrono::steady_clock::now() < guard);
    CHECK(seen.ws_col == 132);
    CHECK(seen.ws_row == 50);
    CHECK(::isatty(streams.err.get()) == 0);
    streams = WorkerStreams();
    keeper.reset();
    run.end();
}

TEST_CASE("lines of the launcher wait for a blocked console, in order, and not without bound") {
    constexpr std::size_t kLost = 7;
    ConsoleEnds full = pipe_console();
    const int fd = full.writer.get();
    const int flags = ::fcntl(fd, F_GETFL);
    REQUIRE(::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
    while (::write(fd, "full of this\n", 13) > 0) {
    }
    while (::write(fd, "\n", 1) > 0) {
    }
    REQUIRE(::fcntl(fd, F_SETFL, flags) == 0);
    PumpRun run(OutputOptions(), pipe_console(), std::move(full));
    // One more is on its way already.
    const std::size_t count = 1 + kMaxAnnouncements + kLost;
    for (std::size_t i = 0; i < count; ++i) run.pump().announce("ddprun: word " + std::to_string(i));
    run.last_lines(0);  // answered behind them
    run.err.read_on();
    run.end();
    std::string words;
    for (std::size_t i = 0; i < count - kLost; ++i) words += "word " + std::to_string(i) + "\n";
    CHECK(lines_with(run.err.all(), "ddprun: ") == words + "7 more lines of the launcher were not shown\n");
}

}  // namespace ddprun
