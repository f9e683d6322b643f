#include "launcher/doctor/questions.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "launcher/cluster/host_list.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/process/descriptors.hpp"
#include "rendezvous/net/resolver.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// Under a sanitizer _exit() does what exit() does: it writes what the parent's stdio still holds, into the
// answer.
[[noreturn]] void leave(int code) {
    for (;;) ::syscall(SYS_exit_group, code);
}

[[noreturn]] void be_child(pid_t parent, int answer, const std::function<void()>& ask) {
    ::setpgid(0, 0);
    // It ends with whoever asks, unless that is over already.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) leave(1);
    ::dup2(answer, STDOUT_FILENO);
    lead_to_nowhere({STDIN_FILENO, STDERR_FILENO});
    close_from(STDERR_FILENO + 1);
    ask();
    leave(0);
}

}  // namespace

BoundedChild::BoundedChild(const std::function<void()>& ask) {
    OwnedDescriptor given;
    if (!make_pipe(answer_, given)) return;
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) be_child(parent, given.get(), ask);
    if (pid_ > 0) ::setpgid(pid_, pid_);  // Whoever of the two comes first.
}

BoundedChild::Answer BoundedChild::await(Deadline deadline) {
    Answer answer;
    if (pid_ < 0) return answer;
    std::array<char, 4096> piece;
    while (answer.bytes.size() < kMaxChildAnswer) {
        if (!await_ready(answer_.get(), POLLIN, deadline)) {
            answer.end = AnswerEnd::hangs;
            break;
        }
        const ssize_t got = ::read(answer_.get(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            answer.end = AnswerEnd::answered;
            break;
        }
        answer.bytes.append(piece.data(), static_cast<std::size_t>(got));
    }
    end();
    return answer;
}

void BoundedChild::end() {
    if (pid_ < 0) return;
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    await_ready(open_end_of_child(pid_).get(), POLLIN, std::chrono::steady_clock::now() + kReapLimit);
    ::waitpid(pid_, nullptr, WNOHANG);
    pid_ = -1;
}

namespace {

enum class FolderStep : std::uint32_t { enter, space, make_file, write, done };
constexpr std::array<const char*, 5> kStepTexts = {"cannot be entered", "does not tell its space",
                                                   "no file can be made", "nothing can be written", ""};

// The child answers with these bytes as they lie in memory, since both ends are one program.
struct FolderReply {
    FolderStep step = FolderStep::enter;  // the one that failed, or done
    std::uint32_t tried = 0;              // of the paths
    FolderSpace found;
};

constexpr std::size_t kBytesTried = 4096;
// A folder may be as deep as a path is long; further up nothing is tried.
constexpr std::size_t kMaxFoldersTried = 64;

// Returns the folder, then those above it.
std::vector<std::string> paths_tried(const FolderQuestion& question) {
    std::filesystem::path path = question.path;
    std::vector<std::string> paths{path.string()};
    if (!question.may_be_made) return paths;
    std::error_code ignored;
    path = std::filesystem::absolute(path, ignored).lexically_normal();
    while (path.has_relative_path() && paths.size() < kMaxFoldersTried) {
        path = path.parent_path();
        paths.push_back(path.string());
    }
    return paths;
}

// Makes a file without a name; if the file system has no such files, one whose name is removed at once.
int make_passing_file(int folder) {
    const int unnamed = ::openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (unnamed >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL))
        return unnamed;
    std::array<char, 32> name{".ddprun-doctor-"};
    std::size_t length = std::strlen(name.data());
    for (auto rest = static_cast<unsigned>(::getpid()); rest > 0; rest /= 10)
        name.at(length++) = static_cast<char>('0' + rest % 10);
    const int named = ::openat(folder, name.data(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (named >= 0) ::unlinkat(folder, name.data(), 0);
    return named;
}

FolderReply try_folder(const std::vector<std::string>& paths, bool is_written) {
    FolderReply reply;
    const auto failed_at = [&reply](FolderStep step) {
        reply.step = step;
        reply.found.error_number = errno;
        return reply;
    };
    int folder = -1;
    for (reply.tried = 0; reply.tried < paths.size(); ++reply.tried) {
        folder = ::open(paths[reply.tried].c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOCTTY);
        // A folder that may be entered need not be one that may be listed.
        if (folder < 0 && errno == EACCES)
            folder = ::open(paths[reply.tried].c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (folder >= 0 || errno != ENOENT) break;
    }
    if (folder < 0) return failed_at(FolderStep::enter);
    struct statvfs space {};
    if (::fstatvfs(folder, &space) != 0) return failed_at(FolderStep::space);
    reply.found.size = static_cast<std::uint64_t>(space.f_frsize) * space.f_blocks;
    reply.found.free = static_cast<std::uint64_t>(space.f_frsize) * space.f_bavail;
    reply.found.free_files = space.f_favail;
    reply.found.counts_files = space.f_files > 0;
    if (is_written) {
        const int file = make_passing_file(folder);
        if (file < 0) return failed_at(FolderStep::make_file);
        std::array<char, kBytesTried> bytes{};
        const ssize_t written = ::write(file, bytes.data(), bytes.size());
        if (written >= 0 && written < static_cast<ssize_t>(bytes.size())) errno = ENOSPC;
        if (written != static_cast<ssize_t>(bytes.size())) return failed_at(FolderStep::write);
        // Over a network this is when a full disk shows.
        if (::close(file) != 0) return failed_at(FolderStep::write);
    }
    reply.step = FolderStep::done;
    return reply;
}

}  // namespace

std::function<void()> ask_folder(const FolderQuestion& question) {
    return [paths = paths_tried(question), is_written = question.is_written] {
        const FolderReply reply = try_folder(paths, is_written);
        // Shorter than what a pipe takes in one piece; a parent that is gone needs none.
        [[maybe_unused]] const ssize_t sent = ::write(STDOUT_FILENO, &reply, sizeof(reply));
    };
}

FolderFacts folder_facts(const FolderQuestion& question, const BoundedChild::Answer& answer) {
    FolderFacts facts;
    facts.role = question.role;
    facts.path = question.path;
    facts.is_written = question.is_written;
    facts.end = answer.end;
    if (answer.end != AnswerEnd::answered) return facts;
    FolderReply reply;
    if (answer.bytes.size() != sizeof(reply)) {
        facts.end = AnswerEnd::failed;
        return facts;
    }
    std::memcpy(&reply, answer.bytes.data(), sizeof(reply));
    const auto paths = paths_tried(question);
    facts.tried = paths[std::min<std::size_t>(reply.tried, paths.size() - 1)];
    facts.failed_step =
        kStepTexts[std::min<std::size_t>(static_cast<std::size_t>(reply.step), kStepTexts.size() - 1)];
    static_cast<FolderSpace&>(facts) = reply.found;
    return facts;
}

namespace {

// This stands in front of what the resolver says in place of addresses.
constexpr std::string_view kNoAddress = "no ";

// Addresses with blanks between, or why there are none.
std::string resolved_line(const std::string& host) {
    const auto found = resolve_host(host);
    if (const auto* why = std::get_if<std::string>(&found)) return std::string(kNoAddress) + *why + "\n";
    std::string line;
    for (const std::string& address : std::get<std::vector<std::string>>(found))
        line += (line.empty() ? "" : " ") + address;
    return line + "\n";
}

NameFacts facts_of_line(std::string_view line) {
    NameFacts facts;
    if (line.starts_with(kNoAddress)) {
        facts.why = line.substr(kNoAddress.size());
        return facts;
    }
    for (const std::string_view word : words_between_blanks(line)) facts.addresses.emplace_back(word);
    return facts;
}

}  // namespace

std::function<void()> ask_name(const std::string& host) { return ask_names({host}); }

NameFacts name_facts(const BoundedChild::Answer& answer) { return names_facts(1, answer).front(); }

std::function<void()> ask_names(const std::vector<std::string>& hosts) {
    return [hosts] {
        for (const std::string& host : hosts) {
            const std::string line = resolved_line(host);
            [[maybe_unused]] const ssize_t sent = ::write(STDOUT_FILENO, line.data(), line.size());
        }
    };
}

std::vector<NameFacts> names_facts(std::size_t hosts, const BoundedChild::Answer& answer) {
    std::vector<NameFacts> all;
    std::string_view bytes = answer.bytes;
    while (all.size() < hosts) {
        const auto end = bytes.find('\n');
        if (end == std::string_view::npos) {
            all.push_back({answer.end, {}, "the process that asked has died"});
            continue;
        }
        all.push_back(facts_of_line(bytes.substr(0, end)));
        bytes.remove_prefix(end + 1);
    }
    return all;
}

namespace {

constexpr std::string_view kFileMark = "ddprun-doctor-file ";
constexpr std::string_view kPythonMark = "ddprun-doctor-python ";
constexpr std::string_view kTorchMark = "ddprun-doctor-torch ";

// A file in the current folder must not be taken for a module of Python's.
constexpr const char* kPythonCode =
    "import sys\n"
    "sys.path = [path for path in sys.path if path]\n"
    "print('ddprun-doctor-python', '.'.join(map(str, sys.version_info[:3])))\n"
    "try:\n"
    "    from importlib.metadata import distribution\n"
    "    torch = distribution('torch')\n"
    "    print('ddprun-doctor-torch', torch.version, 'in', torch.locate_file(''))\n"
    "except Exception:\n"
    "    pass\n";

}  // namespace

std::function<void()> ask_python(const std::vector<std::string>& candidates) {
    return [candidates] {
        for (const std::string& file : candidates) {
            struct stat what {};
            if (::stat(file.c_str(), &what) != 0 || !S_ISREG(what.st_mode)) continue;
            if (::access(file.c_str(), X_OK) != 0) continue;
            const std::string found = fmt::format("{}{}\n", kFileMark, file);
            [[maybe_unused]] const ssize_t sent = ::write(STDOUT_FILENO, found.data(), found.size());
            // execv promises not to change them.
            char* const argv[] = {const_cast<char*>(file.c_str()), const_cast<char*>("-c"),
                                  const_cast<char*>(kPythonCode), nullptr};
            ::execv(file.c_str(), argv);
            return;
        }
    };
}

PythonFacts python_facts(const std::string& wanted, const BoundedChild::Answer& answer) {
    PythonFacts facts{wanted, "", answer.end, "", ""};
    const auto take = [](std::string_view line, std::string_view mark, std::string& value) {
        if (line.starts_with(mark)) value = line.substr(mark.size());
    };
    for (const std::string_view line : lines_of(answer.bytes)) {
        take(line, kFileMark, facts.file);
        take(line, kPythonMark, facts.version);
        take(line, kTorchMark, facts.torch);
    }
    return facts;
}

}  // namespace launch
}  // namespace ddprun
