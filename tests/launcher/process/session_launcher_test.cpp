// One test for each trap of Boost.Process 1.81 that touches us, and the rest of a worker's first state.
#include "launcher/process/session_launcher.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "launcher/process/descriptors.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Lines = std::vector<std::string>;

StartFailure start_failure(const WorkerSpec& spec) {
    boost::asio::io_context context;
    auto result = SessionLauncher{}(context.get_executor(), spec);
    REQUIRE(std::holds_alternative<StartFailure>(result));
    return std::get<StartFailure>(result);
}

WorkerSpec program(std::vector<std::string> argv) {
    WorkerSpec spec = stub_spec({});
    spec.argv = std::move(argv);
    return spec;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// Sets the disposition of a signal and restores it at the end.
class Disposition {
  public:
    Disposition(int signal, void (*handler)(int)) : signal_(signal), before_(std::signal(signal, handler)) {}
    Disposition(const Disposition&) = delete;
    Disposition& operator=(const Disposition&) = delete;
    ~Disposition() { std::signal(signal_, before_); }

  private:
    int signal_;
    void (*before_)(int);
};

// Where a child that runs this program's atexit handlers leaves its mark.
const std::string& exit_mark() {
    static const TemporaryFolder folder;
    static const std::string path = (folder.path() / "ran").string();
    return path;
}

pid_t test_process() {
    static const pid_t pid = ::getpid();
    return pid;
}

}  // namespace

TEST_CASE("a program that does not exist: 127, its name, and nothing left") {
    StartFailure by_path = start_failure(program({"./no/such/program", "x"}));
    CHECK(by_path.exit_code == kExitNotFound);
    CHECK(by_path.error_number == ENOENT);
    CHECK(by_path.text == "cannot start './no/such/program': no such file");
    StartFailure by_name = start_failure(program({"no-such-program-anywhere"}));
    CHECK(by_name.exit_code == kExitNotFound);
    CHECK(by_name.text == "cannot start 'no-such-program-anywhere': not found on PATH");
    CHECK(start_failure(program({""})).exit_code == kExitNotFound);
    TemporaryFolder folder;
    const std::string dangling = folder.path() / "dangling";
    std::filesystem::create_symlink("gone", dangling);
    StartFailure by_link = start_failure(program({dangling}));
    CHECK(by_link.exit_code == kExitNotFound);
    CHECK(contains(by_link.text, "it is a link to gone, which is not there"));
    StartFailure below_file = start_failure(program({folder.file("plain", "") + "/x"}));
    CHECK(below_file.exit_code == kExitNotExecutable);
    CHECK(contains(below_file.text, "plain is no folder"));
    CHECK(has_no_children());
}

TEST_CASE("a file that cannot be executed: 126 and why") {
    TemporaryFolder folder;
    StartFailure denied = start_failure(program({folder.file("plain", "echo hi\n")}));
    CHECK(denied.exit_code == kExitNotExecutable);
    CHECK(denied.error_number == EACCES);
    CHECK(contains(denied.text, "it is not executable; chmod +x makes it so"));
    StartFailure directory = start_failure(program({folder.path().string()}));
    CHECK(directory.exit_code == kExitNotExecutable);
    CHECK(contains(directory.text, "it is a directory"));
    StartFailure interpreter = start_failure(program({folder.file("script", "#!/no/such/shell\n", 0755)}));
    CHECK(interpreter.exit_code == kExitNotExecutable);
    CHECK(contains(interpreter.text, "its interpreter /no/such/shell (after #!"));
    StartFailure windows = start_failure(program({folder.file("windows", "#!/bin/sh\r\necho\r\n", 0755)}));
    CHECK(contains(windows.text, "its interpreter /bin/sh (after #!"));
    CHECK(contains(windows.text, "carriage return"));
    StartFailure binary = start_failure(program({folder.file("binary",
                                                             "\x7f"
                                                             "ELF nonsense",
                                                             0755)}));
    CHECK(binary.exit_code == kExitNotExecutable);
    CHECK(binary.error_number == ENOEXEC);
    CHECK(contains(binary.text, "not for this kind of machine"));
    StartFailure long_argument = start_failure(program({"true", std::string(1 << 20, 'x')}));
    CHECK(long_argument.exit_code == kExitNotExecutable);
    CHECK(long_argument.error_number == E2BIG);
    CHECK(contains(long_argument.text, "the longest is argument 1 with 1048576"));
    CHECK(has_no_children());
}

TEST_CASE("when exec fails, the child runs no atexit handler of ours") {
    const pid_t self = test_process();
    REQUIRE_FALSE(exit_mark().empty());
    std::atexit([] {
        if (::getpid() != test_process()) std::ofstream(exit_mark()) << "ran";
    });
    CHECK(start_failure(program({"./no/such/program"})).exit_code == kExitNotFound);
    CHECK_FALSE(std::filesystem::exists(exit_mark()));
    CHECK(::getpid() == self);
}

TEST_CASE("no zombie is left, neither by failed nor by ended workers") {
    for (int i = 0; i < 3; ++i) start_failure(program({"./no/such/program"}));
    StubRun run({"exit", "3"});
    CHECK(to_string(run.wait()) == "exit code 3");
    CHECK(has_no_children());
}

TEST_CASE("a failed start leaves no descriptor open") {
    const int before = ::dup(STDERR_FILENO);
    ::close(before);
    for (int i = 0; i < 5; ++i) start_failure(program({"./no/such/program"}));
    const int after = ::dup(STDERR_FILENO);
    ::close(after);
    CHECK(after == before);
}

TEST_CASE("a worker has the three standard streams open and nothing else") {
    int leak[2];
    REQUIRE(::pipe(leak) == 0);
    const int high = ::fcntl(leak[0], F_DUPFD, 500);
    StubRun run({"fds"});
    CHECK(run.out().rest() == Lines{"0", "1", "2"});
    run.wait();
    for (int fd : {leak[0], leak[1], high}) ::close(fd);
}

TEST_CASE("exit 9 and kill -9 are told apart") {
    StubRun code({"exit", "9"});
    CHECK(to_string(code.wait()) == "exit code 9");
    StubRun kill({"signal", "9"});
    CHECK(to_string(kill.wait()) == "signal 9 (SIGKILL)");
}

TEST_CASE("ignored, blocked and handled signals of the launcher do not reach the worker") {
    Disposition pipe(SIGPIPE, SIG_IGN);
    Disposition hangup(SIGHUP, SIG_IGN);
    Disposition user(SIGUSR2, [](int) {});
    sigset_t some;
    sigset_t before;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    sigaddset(&some, SIGTERM);
    REQUIRE(::pthread_sigmask(SIG_BLOCK, &some, &before) == 0);
    StubRun run({"dispositions"});
    sigset_t meanwhile;
    ::pthread_sigmask(SIG_SETMASK, &before, &meanwhile);
    CHECK(run.out().rest() == Lines{"end"});
    run.wait();
    CHECK(sigismember(&meanwhile, SIGUSR1) == 1);
    CHECK(sigismember(&meanwhile, SIGUSR2) == 0);
}

TEST_CASE("a SIGHUP that nohup ignored stays ignored") {
    WorkerSpec spec = stub_spec({"dispositions"});
    spec.ignore_hangup = true;
    StubRun run(spec);
    CHECK(run.out().rest() == Lines{"ignored SIGHUP", "end"});
    run.wait();
}

TEST_CASE("a worker has the limit of descriptors that the launcher was given") {
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    rlimit low = before;
    low.rlim_cur = 256;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
    const std::uint64_t given = raise_open_files();
    rlimit raised{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &raised) == 0);
    CHECK(given == 256);
    CHECK(raised.rlim_cur == raised.rlim_max);
    CHECK(raise_open_files() == 0);
    const auto limit_of = [](std::uint64_t open_files) {
        WorkerSpec spec = stub_spec({});
        spec.argv = {"/bin/sh", "-c", "ulimit -Sn; ulimit -Hn"};
        spec.open_files = open_files;
        StubRun run(spec);
        const Lines lines = run.out().rest();
        run.wait();
        return lines;
    };
    const std::string hard = raised.rlim_max == RLIM_INFINITY ? "unlimited" : std::to_string(raised.rlim_max);
    CHECK(limit_of(given) == Lines{"256", hard});
    CHECK(limit_of(0) == Lines{hard, hard});
    ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("a worker leads its own session and process group") {
    StubRun run({"session"});
    const std::string pid = std::to_string(run.pid());
    CHECK(run.out().line() ==
          "pid " + pid + " ppid " + std::to_string(::getpid()) + " pgid " + pid + " sid " + pid);
    run.wait();
}

TEST_CASE("arguments arrive byte for byte") {
    const Lines arguments = {"", " ", "-x", "--", "a b", "\"'$`\\", "\xff\xfe\x01", "*", "$local_rank"};
    WorkerSpec spec = stub_spec({"print-args"});
    Lines expected;
    for (const std::string& argument : arguments) {
        spec.argv.push_back(argument);
        expected.push_back(std::to_string(argument.size()) + ":" + argument);
    }
    StubRun run(spec);
    CHECK(run.out().rest() == expected);
    run.wait();
}

TEST_CASE("the environment is the given one and no other") {
    WorkerSpec spec = stub_spec({"print-env"});
    spec.environment = {{"A", "1"}, {"EMPTY", ""}, {"LINES", "x\ny=z"}, {"PATH", "/nowhere"}};
    StubRun run(spec);
    CHECK(run.out().rest() == Lines{"A=1", "EMPTY=", "LINES=x\\ny=z", "PATH=/nowhere"});
    run.wait();
}

TEST_CASE("a program is found on the worker's PATH, not on the launcher's") {
    TemporaryFolder folder;
    folder.file("ddprun-test-tool", "#!/bin/sh\necho found\n", 0755);
    WorkerSpec spec = program({"ddprun-test-tool"});
    CHECK(start_failure(spec).exit_code == kExitNotFound);
    spec.environment["PATH"] = "/nowhere:" + folder.path().string();
    StubRun run(spec);
    CHECK(run.out().rest() == Lines{"found"});
    run.wait();
}

TEST_CASE(
    "a file on PATH that may not be executed does not hide a later one, and is the reason if none follows") {
    TemporaryFolder first;
    TemporaryFolder second;
    first.file("ddprun-test-tool", "#!/bin/sh\necho wrong\n", 0644);
    WorkerSpec spec = program({"ddprun-test-tool"});
    spec.environment["PATH"] = first.path().string() + ":" + second.path().string();
    CHECK(start_failure(spec).error_number == EACCES);
    second.file("ddprun-test-tool", "#!/bin/sh\necho right\n", 0755);
    StubRun run(spec);
    CHECK(run.out().rest() == Lines{"right"});
    run.wait();
}

TEST_CASE("a script without #! is run by the shell, as execvp has it") {
    TemporaryFolder folder;
    StubRun run(program({folder.file("script", "echo \"$# $1\"\nexit 5\n", 0755), "one", "two"}));
    CHECK(run.out().rest() == Lines{"2 one"});
    CHECK(to_string(run.wait()) == "exit code 5");
}

TEST_CASE("stdin is at its end, and streams can lead to /dev/null") {
    StubRun input({"print-stdin"});
    CHECK(input.out().rest() == Lines{"eof"});
    input.wait();
    WorkerSpec spec = stub_spec({"say", "unheard", "exit", "4"});
    spec.standard_output = Stdio::null;
    StubRun output(spec);
    CHECK(output.out().rest().empty());
    CHECK(to_string(output.wait()) == "exit code 4");
}

TEST_CASE("streams can lead to descriptors given by the caller") {
    int out[2];
    int error[2];
    REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(error, O_CLOEXEC) == 0);
    LineReader out_lines(out[0]);
    LineReader error_lines(error[0]);
    WorkerSpec spec = stub_spec({"say", "to stdout", "complain", "to stderr", "fds", "exit", "4"});
    spec.standard_output = GivenDescriptor{out[1]};
    spec.standard_error = GivenDescriptor{error[1]};
    StubRun run(spec);
    ::close(out[1]);
    ::close(error[1]);
    CHECK(out_lines.rest() == Lines{"to stdout", "0", "1", "2"});
    CHECK(error_lines.rest() == Lines{"to stderr"});
    CHECK(run.out().rest().empty());
    CHECK(to_string(run.wait()) == "exit code 4");
}

TEST_CASE("a launcher without stdin and stderr still starts workers and reports failures") {
    boost::asio::io_context context;
    // Made before, so that its own descriptors do not get the numbers that become free.
    LocalRunner runner(context.get_executor());
    WorkerSpec nowhere = program({"./no/such/program"});
    // The report's pipe gets the free numbers, and must not be lost when the worker's streams are set up.
    nowhere.standard_error = Stdio::null;
    const int input = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    const int error = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    ::close(STDIN_FILENO);
    ::close(STDERR_FILENO);
    auto missing = SessionLauncher{}(context.get_executor(), nowhere);
    bool gone = false;
    CallingObserver observer{[](const auto&) {}, [&gone] { gone = true; }};
    std::optional<LineReader> out;
    {
        StdoutToPipe pipe;
        runner.start(stub_spec({"fds", "print-stdin"}), observer);
        out.emplace(pipe.take_reader());
    }
    const Lines lines = out->rest();
    out.reset();
    ::dup2(input, STDIN_FILENO);
    ::dup2(error, STDERR_FILENO);
    ::close(input);
    ::close(error);
    REQUIRE(std::holds_alternative<StartFailure>(missing));
    CHECK(std::get<StartFailure>(missing).exit_code == kExitNotFound);
    CHECK(lines == Lines{"0", "1", "eof"});
    run_until(context, [&gone] { return gone; });
}

TEST_CASE("without free descriptors the system's refusal is the reason: 71") {
    boost::asio::io_context context;
    // Every number up to here is taken, and the limit lets no further one be made.
    std::vector<int> taken;
    while (taken.empty() || taken.back() < 200) {
        taken.push_back(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
        REQUIRE(taken.back() >= 0);
    }
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    rlimit tight = before;
    tight.rlim_cur = 201;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
    auto result = SessionLauncher{}(context.get_executor(), stub_spec({"exit", "0"}));
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    for (int fd : taken) ::close(fd);
    REQUIRE(std::holds_alternative<StartFailure>(result));
    CHECK(std::get<StartFailure>(result).exit_code == kExitSystem);
    CHECK(std::get<StartFailure>(result).error_number == EMFILE);
}

TEST_CASE("a worker dies with the launcher that started it, even by SIGKILL") {
    std::optional<LineReader> out;
    pid_t launcher = -1;
    {
        StdoutToPipe pipe;
        launcher = ::fork();
        if (launcher == 0) {
            boost::asio::io_context context;
            auto result = SessionLauncher{}(context.get_executor(), stub_spec({"ready-then-wait"}));
            for (;;) ::pause();
        }
        out.emplace(pipe.take_reader());
    }
    REQUIRE(launcher > 0);
    CHECK(out->line() == "ready");
    REQUIRE(::kill(launcher, SIGKILL) == 0);
    REQUIRE(::waitpid(launcher, nullptr, 0) == launcher);
    // The end of the pipe: the worker was the last one that held it.
    CHECK_FALSE(out->line().has_value());
}

}  // namespace ddprun
