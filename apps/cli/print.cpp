#include "apps/cli/print.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <elfutils/version.h>
#include <sodium/version.h>
#include <spdlog/version.h>
#include <toml++/impl/version.h>
#include <zlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/version.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "apps/cli/printed.hpp"
#include "launcher/process/child_exec.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr const char* kPager = "less";
// less then ends at once where all fits on the screen, shows colours, and leaves the text there: git's
// choice.
constexpr const char* kPagerOptions = "FRX";

std::optional<std::string> variable_named(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// A version is no text to be read.
constexpr int kMostLinesSeen = 2;

// Nobody wants letters otherwise than plain: https://no-color.org, and terminals that have but one kind.
bool shows_bold() {
    return ::isatty(STDOUT_FILENO) != 0 && variable_named("NO_COLOR").value_or("").empty() &&
           variable_named("TERM").value_or("dumb") != "dumb";
}

// The command that shows what is too long for the screen; empty: there is none, or nobody wants it.
std::string find_pager() {
    if (::isatty(STDOUT_FILENO) == 0) return "";
    for (const char* name : {"DDPRUN_PAGER", "PAGER"}) {
        if (const auto said = variable_named(name)) return *said == "cat" ? "" : *said;
    }
    return find_executable(kPager, variable_named("PATH")).empty() ? "" : kPager;
}

// CLI11's usage line, or one of ours.
class UsageLine : public CLI::Formatter {
  public:
    explicit UsageLine(std::string usage) : usage_(std::move(usage)) {}

    std::string make_usage(const CLI::App* app, std::string name) const override {
        return usage_.empty() ? CLI::Formatter::make_usage(app, name)
                              : fmt::format("Usage: {} {}\n", app->get_name(), usage_);
    }

  private:
    std::string usage_;
};

void name_variables(CLI::App& app, const std::vector<OptionGroup>& groups) {
    for (const OptionGroup& group : groups) {
        for (const OptionRow& row : group.rows) {
            // CLI11 searches by name; most have none.
            if (row.has(kTorchruns)) app.get_option(first_name(row))->envname(other_variables_of(row));
        }
    }
}

// A fault that is found in one of these is mended by a build with a newer one.
std::string what_is_inside() {
    constexpr int kPatch = 100, kMinor = 1000, kMajor = 100'000;
    return fmt::format(
        "with Boost {}.{}.{}, fmt {}.{}.{}, toml++ {}.{}.{}, libsodium {}, CLI11 {}, spdlog {}.{}.{}, "
        "elfutils 0.{}, zlib {}, "
        "libstdc++ {}; OpenSSL is the system's, opened where etcd is asked by TLS; licences: --licenses",
        BOOST_VERSION / kMajor, BOOST_VERSION / kPatch % kMinor, BOOST_VERSION % kPatch, FMT_VERSION / 10'000,
        FMT_VERSION / 100 % 100, FMT_VERSION % 100, TOML_LIB_MAJOR, TOML_LIB_MINOR, TOML_LIB_PATCH,
        SODIUM_VERSION_STRING, CLI11_VERSION, SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH,
        _ELFUTILS_VERSION, ZLIB_VERSION, _GLIBCXX_RELEASE);
}

}  // namespace

void add_standard_options(CLI::App& app, const std::string& version, const std::string& usage) {
    app.formatter(std::make_shared<UsageLine>(usage));
    const std::string more =
        usage.empty() ? "" : "\nBehind it may stand what to show: all, one option, or a group of options.";
    app.set_help_flag("-h,--help", "Show this text and exit" + more);
    app.set_version_flag("--version", fmt::format("{} {}\n{}", app.get_name(), version, what_is_inside()),
                         "Show the version and exit");
    add_print_options(app);
}

std::optional<std::string> parse_words(CLI::App& app, const std::vector<OptionGroup>& groups,
                                       std::vector<std::string> words, const std::string& topic) {
    std::reverse(words.begin(), words.end());  // CLI11 takes a vector from its back.
    std::string wrong;
    try {
        app.parse(std::move(words));
    } catch (const CLI::CallForHelp&) {
        name_variables(app, groups);
        return help_text(app, groups, topic);
    } catch (const CLI::CallForVersion& version) {
        return std::string(version.what()) + "\n";
    } catch (const CLI::ParseError& error) {
        wrong = fmt::format("{}; see {} --help", error.what(), app.get_name());
    }
    if (wants_print(app)) {
        // Only now: CLI11 would read them itself, from wherever this process has its environment.
        name_variables(app, groups);
        return printed(app);
    }
    if (!wrong.empty()) throw UsageError(wrong);
    return std::nullopt;
}

void print(const std::string& text) {
    const bool is_written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    if (!is_written && errno != EPIPE) fail_errno(errno, "cannot write to stdout");
}

void show_text(const std::string& plain) {
    constexpr int kNoSuchCommand = 127;  // a shell's
    const std::string text = shows_bold() ? with_bold_headings(plain) : plain;
    const bool is_seen_whole = std::count(text.begin(), text.end(), '\n') <= kMostLinesSeen;
    const std::string pager = is_seen_whole ? "" : find_pager();
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

}  // namespace app
}  // namespace ddprun
