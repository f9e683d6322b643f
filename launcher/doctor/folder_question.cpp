#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "launcher/doctor/questions.hpp"

namespace ddprun::inline launch {
namespace {

enum class FolderStep : std::int32_t { enter, space, make_file, write, done };

// What the child says, as it lies in memory: both ends are one program.
struct FolderReply {
    FolderStep step = FolderStep::enter;  // the one that failed, or done
    std::int32_t error_number = 0;
    std::uint32_t tried = 0;  // of the paths
    std::uint64_t size = 0;
    std::uint64_t free = 0;
    std::uint64_t files = 0;
    std::uint64_t free_files = 0;
};

constexpr std::size_t kBytesTried = 4096;
// A folder may be as deep as a path is long; further up nothing is tried.
constexpr std::size_t kMaxFoldersTried = 64;

std::string step_text(FolderStep step) {
    switch (step) {
        case FolderStep::enter: return "cannot be entered";
        case FolderStep::space: return "does not tell its space";
        case FolderStep::make_file: return "no file can be made";
        case FolderStep::write: return "nothing can be written";
        case FolderStep::done: return "";
    }
    return "";
}

// The folder, then those above it.
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

// A file without a name; where the file system has none of those, one whose name goes at once.
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
        reply.error_number = errno;
        return reply;
    };
    int folder = -1;
    for (reply.tried = 0; reply.tried < paths.size(); ++reply.tried) {
        folder = ::open(paths[reply.tried].c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOCTTY);
        // One that may be entered need not be one that may be listed.
        if (folder < 0 && errno == EACCES)
            folder = ::open(paths[reply.tried].c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (folder >= 0 || errno != ENOENT) break;
    }
    if (folder < 0) return failed_at(FolderStep::enter);
    struct statvfs space {};
    if (::fstatvfs(folder, &space) != 0) return failed_at(FolderStep::space);
    reply.size = static_cast<std::uint64_t>(space.f_frsize) * space.f_blocks;
    reply.free = static_cast<std::uint64_t>(space.f_frsize) * space.f_bavail;
    reply.files = space.f_files;
    reply.free_files = space.f_favail;
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
    facts.failed_step = step_text(reply.step);
    facts.error_number = reply.error_number;
    facts.size = reply.size;
    facts.free = reply.free;
    facts.free_files = reply.free_files;
    facts.counts_files = reply.files > 0;
    return facts;
}

}  // namespace ddprun::inline launch
