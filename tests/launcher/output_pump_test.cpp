#include "launcher/output_pump.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <boost/asio/executor_work_guard.hpp>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>

#include "launcher/local_runner.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Modes = std::vector<std::string>;

// One end of a console, read by a thread of its own; nothing is read until read_on().
class ConsoleReader {
  public:
    explicit ConsoleReader(OwnedDescriptor fd) : fd_(std::move(fd)), thread_([this] { run(); }) {}
    ~ConsoleReader() {
        read_on();
        thread_.join();
    }

    void read_on() {
        std::lock_guard lock(mutex_);
        reading_ = true;
        condition_.notify_all();
    }

    // Everything up to the end of the console, which comes when its last writer has closed it.
    std::string all() {
        read_on();
        std::unique_lock lock(mutex_);
        if (!condition_.wait_for(lock, kHangGuard, [this] { return ended_; }))
            throw std::runtime_error("no end");
        return text_;
    }

    // Waits until this text has come.
    void await(const std::string& text) {
        read_on();
        std::unique_lock lock(mutex_);
        if (!condition_.wait_for(lock, kHangGuard, [&] { return text_.find(text) != std::string::npos; })) {
            throw std::runtime_error("'" + text + "' never came, but '" + text_ + "'");
        }
    }

    void close() { fd_.reset(); }

  private:
    void run() {
        {
            std::unique_lock lock(mutex_);
            condition_.wait(lock, [this] { return reading_; });
        }
        char buffer[4096];
        for (;;) {
            const ssize_t count = ::read(fd_.get(), buffer, sizeof buffer);
            std::lock_guard lock(mutex_);
            if (count > 0) text_.append(buffer, static_cast<std::size_t>(count));
            ended_ = count <= 0;
            condition_.notify_all();
            if (ended_) return;
        }
    }

    OwnedDescriptor fd_;
    std::mutex mutex_;
    std::condition_variable condition_;
    bool reading_ = false;
    bool ended_ = false;
    std::string text_;
    std::thread thread_;
};

struct Ends {
    OwnedDescriptor reader;
    OwnedDescriptor writer;
};

Ends make_pipe() {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    return {OwnedDescriptor(fds[0]), OwnedDescriptor(fds[1])};
}

// A terminal of 100 columns and 30 rows that passes bytes on as they are.
Ends make_terminal() {
    Ends ends{OwnedDescriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)), OwnedDescriptor()};
    const int master = ends.reader.get();
    REQUIRE(master >= 0);
    REQUIRE(::grantpt(master) == 0);
    REQUIRE(::unlockpt(master) == 0);
    ends.writer.reset(::open(::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC));
    REQUIRE(ends.writer.get() >= 0);
    termios modes{};
    REQUIRE(::tcgetattr(ends.writer.get(), &modes) == 0);
    ::cfmakeraw(&modes);
    REQUIRE(::tcsetattr(ends.writer.get(), TCSANOW, &modes) == 0);
    winsize size{};
    size.ws_col = 100;
    size.ws_row = 30;
    REQUIRE(::ioctl(master, TIOCSWINSZ, &size) == 0);
    return ends;
}

OutputPlan plan_of(const OutputOptions& options) {
    auto parsed = parse_output_options(options);
    if (const auto* why = std::get_if<std::string>(&parsed)) throw std::runtime_error(*why);
    return std::get<OutputPlan>(parsed);
}

// An agent in small: a pump between real workers and two consoles.
class PumpRun {
  public:
    PumpRun(const OutputOptions& options, Ends to_out, Ends to_err)
        : out(std::move(to_out.reader)),
          err(std::move(to_err.reader)),
          out_writer_(std::move(to_out.writer)),
          err_writer_(std::move(to_err.writer)),
          work_(context_.get_executor()),
          runner_(context_.get_executor()) {
        OutputPumpSettings settings;
        settings.out_fd = out_writer_.get();
        settings.err_fd = err_writer_.get();
        settings.temporary_folder = temporary_.path().string();
        pump_.emplace(context_.get_executor(), plan_of(options), settings,
                      [this](const std::string& text) { notices.push_back(text); });
        begin_round(0);
    }
    explicit PumpRun(const OutputOptions& options = {}) : PumpRun(options, make_pipe(), make_pipe()) {}

    void begin_round(int attempt) { pump_->begin_round({"job", attempt, "trainer", "node7"}); }

    pid_t start(int local_rank, Modes modes) {
        WorkerSpec spec;
        spec.argv = std::move(modes);
        spec.argv.insert(spec.argv.begin(), DDPRUN_OUTPUT_STUB);
        spec.environment = current_environment();
        WorkerStreams streams = pump_->open(local_rank, 100 + local_rank);
        spec.standard_output = streams.standard_output();
        spec.standard_error = streams.standard_error();
        error_files[local_rank] = streams.error_file;
        ++unfinished_;
        const auto started = runner_.start(spec, {[](const ExitStatus&) {},
                                                  [this, local_rank] {
                                                      ++gone;
                                                      pump_->finish(local_rank, [this] { --unfinished_; });
                                                  }});
        REQUIRE(std::holds_alternative<Started>(started));
        return std::get<Started>(started).pid;
    }

    void run_until_finished() {
        run_until(context_, [this] { return unfinished_ == 0; });
    }

    void run_until_gone(int count) {
        run_until(context_, [this, count] { return gone == count; });
    }

    std::vector<std::string> last_lines(int local_rank) {
        std::optional<std::vector<std::string>> lines;
        pump_->last_lines(local_rank, [&](auto given) { lines = std::move(given); });
        run_until(context_, [&] { return lines.has_value(); });
        return *lines;
    }

    void drain() {
        bool drained = false;
        pump_->drain([&] { drained = true; });
        run_until(context_, [&] { return drained; });
    }

    // Everything shown, nothing lost; the consoles end.
    void end() {
        run_until_finished();
        drain();
        close();
    }

    void close() {
        losses = pump_->stop();
        pump_.reset();
        context_.poll();
        out_writer_.reset();
        err_writer_.reset();
    }

    OutputPump& pump() { return *pump_; }
    void kill(pid_t worker) { runner_.signal_group(worker, SIGKILL); }
    const std::filesystem::path& temporary() const { return temporary_.path(); }

  private:
    TemporaryFolder temporary_;

  public:
    ConsoleReader out;
    ConsoleReader err;
    std::vector<std::string> notices;
    std::vector<std::string> losses;
    std::map<int, std::string> error_files;
    int gone = 0;

  private:
    // Behind the readers, so that they are closed before somebody waits for the end.
    OwnedDescriptor out_writer_;
    OwnedDescriptor err_writer_;
    boost::asio::io_context context_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
    LocalRunner runner_;
    std::optional<OutputPump> pump_;
    int unfinished_ = 0;
};

std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    REQUIRE(file);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::filesystem::path folder_of(const std::string& error_file) {
    return std::filesystem::path(error_file).parent_path();
}

// What of the text begins with `prefix`, without it.
std::string lines_with(const std::string& text, const std::string& prefix) {
    std::string found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind(prefix, 0) == 0) found += line.substr(prefix.size()) + "\n";
    }
    return found;
}

OutputOptions teed() {
    OutputOptions options;
    options.tee = "3";
    return options;
}

}  // namespace

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
    Modes modes;
    for (int i = 0; i < 30; ++i) {
        modes.push_back("err");
        modes.push_back("line " + std::to_string(i) + "\\n");
    }
    modes.insert(modes.end(), {"err", "the end", "kill"});
    run.start(3, modes);
    run.run_until_gone(1);
    auto lines = run.last_lines(3);
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

TEST_CASE("a console that nobody reads any more changes nothing for files and workers") {
    Ends out = make_pipe();
    out.reader.reset();
    OutputOptions options = teed();
    PumpRun run(options, std::move(out), make_pipe());
    run.start(0, {"flood", "500000", "50", "err", "still there\\n"});
    run.end();
    CHECK(std::filesystem::file_size(folder_of(run.error_files[0]) / "stdout.log") == 500'000);
    CHECK(run.err.all() == "[trainer0]:still there\n");
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

TEST_CASE("workers see a terminal of the console's size where the console is one") {
    PumpRun run(OutputOptions(), make_terminal(), make_pipe());
    run.start(0, {"terminal"});
    run.end();
    CHECK(run.out.all() == "tty 100x30\nno tty\n");
}

TEST_CASE("what does not go to the terminal goes through a pipe") {
    OutputOptions options;
    options.redirects = "1";
    PumpRun run(options, make_terminal(), make_terminal());
    run.start(0, {"terminal"});
    run.end();
    CHECK(text_of(folder_of(run.error_files[0]) / "stdout.log") == "no tty\ntty 100x30\n");
}

TEST_CASE("a progress bar passes at the bottom of a terminal and stays in its last state") {
    PumpRun run(OutputOptions(), make_terminal(), make_pipe());
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
    CHECK(first.find("/job_") != std::string::npos);
    CHECK(first.find("/attempt_0/12/error.json") != std::string::npos);
    CHECK(text_of(folder_of(first) / "stdout.log") == "first\n");
    CHECK(text_of(folder_of(run.error_files[12]) / "stdout.log") == "second\n");
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
    CHECK(log_dir_complaint(plan_of(options)).empty());
    options.log_dir = file;
    CHECK(log_dir_complaint(plan_of(options)) == "--log-dir '" + file + "': is there, but is no folder");
}

TEST_CASE("a file that cannot be written is said once, counted at the end, and stops nobody") {
    OutputOptions options = teed();
    PumpRun run(options);
    const auto full = std::filesystem::path("/dev/full");
    if (!std::filesystem::exists(full)) {
        WARN("skipped: there is no /dev/full");
        return;
    }
    run.out.read_on();
    // The log file is a link to a device that is always full.
    run.start(0, {"out", "x\\n"});
    run.run_until_finished();
    std::filesystem::remove(folder_of(run.error_files[0]) / "stdout.log");
    std::filesystem::create_symlink(full, folder_of(run.error_files[0]) / "stdout.log");
    run.start(0, {"flood", "300000", "100", "out", "end\\n"});
    run.end();
    REQUIRE(run.notices.size() == 1);
    CHECK(run.notices[0].find("stdout.log: No space left on device") != std::string::npos);
    REQUIRE(run.losses.size() == 1);
    CHECK(run.losses[0].find("300004 bytes of ") == 0);
    CHECK(run.out.all().find("[trainer0]:end\n") != std::string::npos);
}

}  // namespace ddprun
