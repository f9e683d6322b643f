// ExitStatus: how a process ended. Pure, and the only place that looks at a wait status.
//
// A wait status is what waitpid(2) fills in. `exit 9` and `kill -9` are different ends here, and a core dump
// never changes the number.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace ddprun::inline job {

// The process called exit with this code, 0..255.
struct Exited {
    int code = 0;
};

// The process was ended by this signal.
struct Signaled {
    int signal = 0;
    bool core_dumped = false;
};

using ExitStatus = std::variant<Exited, Signaled>;

// Takes a wait status of an ended process; that of a stopped or continued one is a bug of the caller
// (check()).
ExitStatus decode_wait_status(int wait_status);

// True for exit code 0 only.
bool succeeded(const ExitStatus& status);

// The number a shell would show: the exit code, or 128 + the signal's number.
int shell_code(const ExitStatus& status);

// "exit code 7", "signal 9 (SIGKILL)", "signal 11 (SIGSEGV, core dumped)".
std::string to_string(const ExitStatus& status);

// "SIGTERM", "SIGRTMIN+3"; nothing for a number that is no signal.
std::optional<std::string> signal_name(int signal);

// For messages: the name, or "signal 99" where there is none.
std::string signal_text(int signal);

// The number of "SIGTERM", "TERM", "term", "SIGRTMIN+3" or "15"; nothing for any other text.
std::optional<int> parse_signal(std::string_view text);

}  // namespace ddprun::inline job
