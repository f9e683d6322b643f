#include "rendezvous/secure/secret_source.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rendezvous/secure/job_key.hpp"
#include "rendezvous/system/deadline.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline job {
namespace {

using Found = std::variant<std::optional<std::string>, std::string>;

// One byte more shows that there is more.
constexpr std::size_t kMostRead = kMaxSecretText + 64;

std::string error_text(int number) { return std::strerror(number); }

Found secret_of(const std::string& source, std::string& text) {
    auto parsed = parse_secret(text);
    wipe(text);
    if (const auto* wrong = std::get_if<std::string_view>(&parsed))
        return fmt::format("{}: the secret {}; ddprun --make-secret makes one", source, *wrong);
    return std::optional(std::get<std::string>(std::move(parsed)));
}

// Why others could read or change what is in the file.
std::string openness(const std::string& path, const struct stat& facts) {
    if (!S_ISREG(facts.st_mode)) return "is no regular file";
    if (facts.st_uid != ::geteuid() && facts.st_uid != 0)
        return fmt::format("belongs to another user (uid {})", facts.st_uid);
    if ((facts.st_mode & 077) != 0)
        return fmt::format("is open to others (mode {:04o}); chmod 600 {}", facts.st_mode & 07777, path);
    return {};
}

std::variant<std::string, int> read_bounded(int fd) {
    std::string text(kMostRead, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t count = ::read(fd, text.data() + size, text.size() - size);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno;
        if (count == 0) break;
        size += static_cast<std::size_t>(count);
    }
    text.resize(size);
    return text;
}

Found secret_of_file(const std::string& source, const std::string& path, bool may_be_absent) {
    // A FIFO must not hold the launcher up.
    const OwnedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file) {
        const int why = errno;
        if (may_be_absent && (why == ENOENT || why == ENOTDIR)) return std::optional<std::string>();
        return fmt::format("{}: {}", source, error_text(why));
    }
    struct stat facts {};
    if (::fstat(file.get(), &facts) != 0) return fmt::format("{}: {}", source, error_text(errno));
    if (const std::string open = openness(path, facts); !open.empty())
        return fmt::format("{}: {}", source, open);
    auto text = read_bounded(file.get());
    if (const int* why = std::get_if<int>(&text)) return fmt::format("{}: {}", source, error_text(*why));
    return secret_of(source, std::get<std::string>(text));
}

// Byte by byte: what is behind the line is the workers'.
Found secret_of_stdin() {
    const std::string source = "--secret-file -";
    const auto deadline = std::chrono::steady_clock::now() + kStdinTimeout;
    std::string line;
    while (line.size() < kMostRead) {
        pollfd ready{STDIN_FILENO, POLLIN, 0};
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(time_until(deadline)).count();
        const int polled = ::poll(&ready, 1, static_cast<int>(left));
        if (polled < 0 && errno == EINTR) continue;
        if (polled == 0)
            return fmt::format("{}: no line came on stdin within {} s", source, kStdinTimeout.count());
        char letter = '\n';
        const ssize_t count = ::read(STDIN_FILENO, &letter, 1);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fmt::format("{}: {}", source, error_text(errno));
        if (count == 0 || letter == '\n') break;
        line += letter;
    }
    return secret_of(source, line);
}

}  // namespace

std::variant<std::optional<std::string>, std::string> find_secret(const SecretSources& sources) {
    if (sources.file == "-") return secret_of_stdin();
    if (!sources.file.empty()) return secret_of_file("--secret-file " + sources.file, sources.file, false);
    if (!sources.variable.empty()) {
        std::string text = sources.variable;
        return secret_of("DDPRUN_SECRET", text);
    }
    if (sources.own_file.empty()) return std::optional<std::string>();
    return secret_of_file(sources.own_file.string(), sources.own_file.string(), true);
}

std::filesystem::path own_secret_file(const char* xdg_config_home, const char* home) {
    const bool has_config = xdg_config_home != nullptr && *xdg_config_home == '/';
    if (!has_config && (home == nullptr || *home == '\0')) return {};
    return (has_config ? std::filesystem::path(xdg_config_home) : std::filesystem::path(home) / ".config") /
           "ddprun" / "secret";
}

std::optional<std::string> make_secret_file(const std::filesystem::path& path) {
    if (path.empty()) return "no home folder is known: set HOME or XDG_CONFIG_HOME";
    const auto failed = [](const std::filesystem::path& where, int number) {
        return fmt::format("{}: {}", where.string(), error_text(number));
    };
    std::error_code error;
    std::filesystem::create_directories(path.parent_path().parent_path(), error);
    if (error) return failed(path.parent_path().parent_path(), error.value());
    if (::mkdir(path.parent_path().c_str(), 0700) != 0 && errno != EEXIST)
        return failed(path.parent_path(), errno);
    const OwnedDescriptor file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file && errno == EEXIST) return path.string() + " is there already, and is kept";
    if (!file) return failed(path, errno);
    std::string text = make_secret_text() + "\n";
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    const int why = written < 0 ? errno : ENOSPC;
    const bool is_whole = written == static_cast<ssize_t>(text.size()) && ::fsync(file.get()) == 0;
    wipe(text);
    if (is_whole) return std::nullopt;
    ::unlink(path.c_str());
    return failed(path, why);
}

}  // namespace ddprun::inline job
