#include "rendezvous/job/exit_status.hpp"

#include <fmt/core.h>

#include <sys/wait.h>
#include <algorithm>
#include <cctype>
#include <csignal>

#include "rendezvous/base/check.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace job {

namespace {

struct NamedSignal {
    std::string_view name;
    int number;
};

// The first name of a number is the one that is shown; the later ones are only understood.
constexpr NamedSignal kSignals[] = {
    {"HUP", SIGHUP},       {"INT", SIGINT},     {"QUIT", SIGQUIT}, {"ILL", SIGILL},   {"TRAP", SIGTRAP},
    {"ABRT", SIGABRT},     {"BUS", SIGBUS},     {"FPE", SIGFPE},   {"KILL", SIGKILL}, {"USR1", SIGUSR1},
    {"SEGV", SIGSEGV},     {"USR2", SIGUSR2},   {"PIPE", SIGPIPE}, {"ALRM", SIGALRM}, {"TERM", SIGTERM},
    {"CHLD", SIGCHLD},     {"CONT", SIGCONT},   {"STOP", SIGSTOP}, {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN},
    {"TTOU", SIGTTOU},     {"URG", SIGURG},     {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ}, {"VTALRM", SIGVTALRM},
    {"PROF", SIGPROF},     {"WINCH", SIGWINCH}, {"IO", SIGIO},     {"PWR", SIGPWR},   {"SYS", SIGSYS},
#ifdef SIGSTKFLT
    {"STKFLT", SIGSTKFLT},
#endif
    {"IOT", SIGABRT},      {"POLL", SIGIO},     {"CLD", SIGCHLD},
};

constexpr std::string_view kRealTime = "RTMIN";

bool is_real_time(int signal) { return signal >= SIGRTMIN && signal <= SIGRTMAX; }

std::optional<int> parse_real_time(std::string_view rest) {
    if (rest.empty()) return SIGRTMIN;
    if (rest.front() != '+') return std::nullopt;
    const auto offset = whole_number<int>(rest.substr(1), 0, SIGRTMAX - SIGRTMIN);
    return offset ? std::optional(SIGRTMIN + *offset) : std::nullopt;
}

}  // namespace

ExitStatus decode_wait_status(int wait_status) {
    if (WIFEXITED(wait_status)) return Exited{WEXITSTATUS(wait_status)};
    check(WIFSIGNALED(wait_status), "a wait status that is no end of a process");
    return Signaled{WTERMSIG(wait_status), WCOREDUMP(wait_status) != 0};
}

bool succeeded(const ExitStatus& status) {
    const auto* exited = std::get_if<Exited>(&status);
    return exited != nullptr && exited->code == 0;
}

int shell_code(const ExitStatus& status) {
    if (auto* exited = std::get_if<Exited>(&status)) return exited->code;
    return kExitSignalBase + std::get<Signaled>(status).signal;
}

std::string to_string(const ExitStatus& status) {
    if (auto* exited = std::get_if<Exited>(&status)) return fmt::format("exit code {}", exited->code);
    const auto& signaled = std::get<Signaled>(status);
    std::string details = signal_name(signaled.signal).value_or("");
    if (signaled.core_dumped) details += details.empty() ? "core dumped" : ", core dumped";
    return fmt::format("signal {}{}", signaled.signal, details.empty() ? "" : fmt::format(" ({})", details));
}

std::optional<std::string> signal_name(int signal) {
    for (const NamedSignal& known : kSignals) {
        if (known.number == signal) return "SIG" + std::string(known.name);
    }
    if (!is_real_time(signal)) return std::nullopt;
    if (signal == SIGRTMIN) return "SIGRTMIN";
    return fmt::format("SIGRTMIN+{}", signal - SIGRTMIN);
}

std::string signal_text(int signal) { return signal_name(signal).value_or(fmt::format("signal {}", signal)); }

std::optional<int> parse_signal(std::string_view text) {
    if (auto number = whole_number<int>(text)) return signal_name(*number) ? number : std::nullopt;
    std::string upper(text);
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](unsigned char c) { return std::toupper(c); });
    std::string_view name = upper;
    if (name.starts_with("SIG")) name.remove_prefix(3);
    for (const NamedSignal& known : kSignals) {
        if (known.name == name) return known.number;
    }
    if (name.starts_with(kRealTime)) return parse_real_time(name.substr(kRealTime.size()));
    return std::nullopt;
}

}  // namespace job
}  // namespace ddprun
