// ExitStatus says how a process ended. Pure, and the only place that looks at a wait status.
//
// A wait status is what waitpid(2) fills in. `exit 9` and `kill -9` are different ends here, and a core dump
// never changes the number.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace ddprun {
inline namespace job {

// kExitUsage and those below are the exit codes that ddprun and ddpctl have of their own; a job otherwise
// ends with the code of the worker that failed first. Adding one: a constant, its line in
// apps/ddprun/manual/failures.md, and its row in exit_code_test.cpp, which compares the two.
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnavailable = 69;  // rendezvous impossible or timed out, or a node lost
inline constexpr int kExitInternal = 70;
inline constexpr int kExitSystem = 71;       // the system refused: fork, port taken
inline constexpr int kExitPreempted = 75;    // all workers ended 0 after a signal to end or to requeue
inline constexpr int kExitNotAdmitted = 77;  // refused by the coordinator
// kExitOverdue: ranks were ended when --exit-wait S:kill had passed, or because the job hung
// (--hang-timeout).
inline constexpr int kExitOverdue = 124;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignalBase = 128;

// Returns the code of something that failed; kExitInternal for a code that a parent would read as another, or
// as 0.
constexpr int failed_code(int code) { return code >= 1 && code <= 255 ? code : kExitInternal; }

// Exited: the process called exit with this code, 0..255.
struct Exited {
    int code = 0;
};

struct Signaled {
    int signal = 0;
    bool core_dumped = false;
};

using ExitStatus = std::variant<Exited, Signaled>;

// Decodes the wait status of an ended process; that of a stopped or continued one is a bug of the caller
// (check()).
ExitStatus decode_wait_status(int wait_status);

// Says whether the exit code is 0.
bool succeeded(const ExitStatus& status);

// Returns the code that a shell would show: the exit code, or 128 + the signal's number.
int shell_code(const ExitStatus& status);

// Returns "exit code 7", "signal 9 (SIGKILL)", "signal 11 (SIGSEGV, core dumped)".
std::string to_string(const ExitStatus& status);

// Returns "SIGTERM", "SIGRTMIN+3"; nothing for a number that is no signal.
std::optional<std::string> signal_name(int signal);

// Returns the signal's name, or "signal 99" where it has none, for messages.
std::string signal_text(int signal);

// Returns the number of "SIGTERM", "TERM", "term", "SIGRTMIN+3" or "15"; nothing for any other text.
std::optional<int> parse_signal(std::string_view text);

}  // namespace job
}  // namespace ddprun
