#include "apps/cli/print.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "launcher/process/exec_search.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline app {
namespace {

constexpr const char* kPager = "less";
// less then ends at once where all fits on the screen, shows colours, and leaves the text there: git's choice.
constexpr const char* kPagerOptions = "FRX";

std::optional<std::string> variable_named(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// The command that shows what is too long for the screen; empty: there is none, or nobody wants it.
std::string find_pager() {
    if (::isatty(STDOUT_FILENO) == 0) return "";
    for (const char* name : {"DDPRUN_PAGER", "PAGER"}) {
        if (const auto said = variable_named(name)) return *said == "cat" ? "" : *said;
    }
    return find_executable(kPager, variable_named("PATH")).empty() ? "" : kPager;
}

}  // namespace

void print(const std::string& text) {
    const bool is_written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    if (!is_written && errno != EPIPE) fail_errno(errno, "cannot write to stdout");
}

void show_text(const std::string& text) {
    constexpr int kNoSuchCommand = 127;  // a shell's
    const std::string pager = find_pager();
    if (pager.empty()) return print(text);
    ::setenv("LESS", kPagerOptions, 0);
    std::FILE* const reader = ::popen(pager.c_str(), "we");
    if (reader == nullptr) return print(text);
    // Ctrl-C is the pager's until it has ended.
    ::signal(SIGINT, SIG_IGN);
    std::fputs(text.c_str(), reader);
    const int status = ::pclose(reader);
    ::signal(SIGINT, SIG_DFL);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNoSuchCommand) print(text);
}

}  // namespace ddprun::inline app
