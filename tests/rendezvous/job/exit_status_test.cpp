#include "rendezvous/job/exit_status.hpp"

#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

int exited(int code) { return W_EXITCODE(code, 0); }
int signaled(int signal, bool core) { return W_EXITCODE(0, signal) | (core ? WCOREFLAG : 0); }

// Numbers 32 and 33 are glibc's own: neither named nor ever seen by a program.
bool is_real(int signal) { return signal < 32 || signal >= SIGRTMIN; }

}  // namespace

TEST_CASE("every exit code is decoded as itself") {
    for (int code = 0; code <= 255; ++code) {
        const ExitStatus status = decode_wait_status(exited(code));
        REQUIRE(std::get<Exited>(status).code == code);
        CHECK(shell_code(status) == code);
        CHECK(succeeded(status) == (code == 0));
        CHECK(to_string(status) == "exit code " + std::to_string(code));
    }
}

TEST_CASE("every signal is decoded with and without a core dump, and gets the shell's number") {
    for (int signal = 1; signal <= SIGRTMAX; ++signal) {
        for (bool core : {false, true}) {
            const ExitStatus status = decode_wait_status(signaled(signal, core));
            REQUIRE(std::get<Signaled>(status).signal == signal);
            CHECK(std::get<Signaled>(status).core_dumped == core);
            CHECK(shell_code(status) == 128 + signal);
            CHECK_FALSE(succeeded(status));
        }
    }
}

TEST_CASE("exit 9 and kill -9 are different ends") {
    const ExitStatus code = decode_wait_status(exited(9));
    const ExitStatus kill = decode_wait_status(signaled(9, false));
    CHECK(std::holds_alternative<Exited>(code));
    CHECK(std::holds_alternative<Signaled>(kill));
    CHECK(shell_code(code) == 9);
    CHECK(shell_code(kill) == 137);
}

TEST_CASE("the text of an end") {
    CHECK(to_string(ExitStatus(Signaled{SIGKILL, false})) == "signal 9 (SIGKILL)");
    CHECK(to_string(ExitStatus(Signaled{SIGSEGV, true})) == "signal 11 (SIGSEGV, core dumped)");
    CHECK(to_string(ExitStatus(Signaled{99, false})) == "signal 99");
    CHECK(to_string(ExitStatus(Signaled{99, true})) == "signal 99 (core dumped)");
}

TEST_CASE("names of signals go both ways, with and without SIG, in any case") {
    for (int signal = 1; signal <= SIGRTMAX; ++signal) {
        INFO("signal " << signal);
        const auto name = signal_name(signal);
        REQUIRE(name.has_value() == is_real(signal));
        CHECK(parse_signal(std::to_string(signal)).has_value() == is_real(signal));
        if (!name) continue;
        CHECK(name->substr(0, 3) == "SIG");
        CHECK(parse_signal(*name) == signal);
        CHECK(parse_signal(name->substr(3)) == signal);
        CHECK(signal_text(signal) == *name);
        // glibc calls this one POLL, shells and people IO.
        if (signal < 32 && signal != SIGIO) CHECK(*name == std::string("SIG") + ::sigabbrev_np(signal));
    }
    CHECK(parse_signal("sigterm") == SIGTERM);
    CHECK(parse_signal("usr1") == SIGUSR1);
    CHECK(parse_signal("IOT") == SIGABRT);
    CHECK(signal_name(SIGABRT) == "SIGABRT");
    CHECK(signal_name(SIGRTMIN + 3) == "SIGRTMIN+3");
    CHECK(signal_text(99) == "signal 99");
}

TEST_CASE("what is no signal is refused") {
    for (const char* text : {"", "SIG", "SIGFOO", "0", "-1", "99", "9x", " 9", "TERM ", "SIGSIGTERM",
                             "RTMIN+", "RTMIN-1", "RTMIN+99", "RTMIN+x", "RTMINX", "SIG9"}) {
        INFO("'" << text << "'");
        CHECK_FALSE(parse_signal(text).has_value());
    }
    CHECK_FALSE(signal_name(0).has_value());
    CHECK_FALSE(signal_name(-1).has_value());
    CHECK_FALSE(signal_name(SIGRTMAX + 1).has_value());
}

}  // namespace ddprun
