#include "launcher/process/process_table.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

pid_t start_sleeper() {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid != 0) return pid;
    while (true) ::pause();
}

struct Case {
    const char* status;
    const char* flags;
    bool ending;
};

}  // namespace

TEST_CASE("a process that was killed is ending from that moment on") {
    CHECK_FALSE(is_ending(::getpid()));
    for (int repeat = 0; repeat < 50; ++repeat) {
        const pid_t pid = start_sleeper();
        REQUIRE_FALSE(is_ending(pid));
        ::kill(pid, SIGKILL);
        REQUIRE(is_ending(pid));
        siginfo_t info;
        REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
        REQUIRE(is_ending(pid));
        ::waitpid(pid, nullptr, 0);
        REQUIRE(is_ending(pid));
    }
}

TEST_CASE("what /proc says of an ending process") {
    const TemporaryFolder proc;
    const std::string before = "77 (a) b) ", behind = " 0 0 0 0 0 0 0 0 0 0 0 0 4711 0\n";
    std::filesystem::create_directory(proc.path() / "77");
    const Case cases[] = {
        {"Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n", "4194304", true},
        {"Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000200\n", "4194304", false},
        {"Name:\tx\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000100\n", "4194304", false},
        {"Name:\tx\nSigPnd:\t0000000000000200\n", "4194304", false},
        {"Name:\tx\nSigPnd:\t0000000000000100\n", "4194304", true},
        {"Name:\tx\nSigPnd:\t0000000000000000\n", "4194308", true},
        {"Name:\tx\nSigPnd:\t0000000000000000\n", "4194816", true},
        {"Name:\tx\nSigPnd:\t0000000000000000\n", "4195328", true},
        {"", "4194304", false},
    };
    for (const Case& one : cases) {
        INFO(one.status << one.flags);
        std::ofstream(proc.path() / "77" / "status") << one.status;
        std::ofstream(proc.path() / "77" / "stat") << before << "S 1 77 77 0 -1 " << one.flags << behind;
        CHECK(is_ending(77, proc.path()) == one.ending);
    }
}

}  // namespace ddprun
