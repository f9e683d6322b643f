#include "launcher/output/log_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "launcher/folder_claim.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// This much of the --rdzv-id is taken, beside a number and a host's name (HOST_NAME_MAX is 64).
constexpr std::size_t kMaxSharedId = 150;

[[noreturn]] void refuse(int error_number, const std::string& path) {
    fail_errno(error_number,
               "cannot create the folder " + path + " for logs and error files (by TMPDIR or --log-dir)");
}

std::string run_folder_name(const PathFacts& facts) {
    const std::string id = as_path_part(facts.run_id);
    if (facts.node_rank < 0) return id;
    return fmt::format("{}_node{}_{}", id.substr(0, kMaxSharedId), facts.node_rank, as_path_part(facts.host));
}

// At umask 0 others would put their names where a worker's error file is to be.
constexpr mode_t kLogFolderMode = 0775;
constexpr mode_t kLogFileMode = 0664;

// In a place of the user's own choice it is the umask that says for whom the folder is.
std::string make_unique(const std::string& start, bool is_private) {
    std::string path = start + "_XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) refuse(errno, path);
    if (is_private) return path;
    // mkdir alone asks the umask without a change of it, which other threads would see.
    const std::string probe = path + "/x";
    struct stat made {};
    if (::mkdir(probe.c_str(), kLogFolderMode) != 0 || ::stat(probe.c_str(), &made) != 0)
        refuse(errno, probe);
    ::rmdir(probe.c_str());
    if (::chmod(path.c_str(), made.st_mode & 07777) != 0) refuse(errno, path);
    return path;
}

}  // namespace

LogFolder::LogFolder(const OutputPlan& plan, std::string temporary)
    : chosen_(plan.log_dir),
      temporary_(std::move(temporary)),
      files_(plan.files),
      chosen_by_user_(!plan.log_dir.empty()),
      bare_(!chosen_by_user_ && !plan.wants_logs()) {}

LogFolder::~LogFolder() {
    if (chosen_by_user_) return;
    // A folder that holds a file stays: rmdir refuses it.
    for (auto path = created_.rbegin(); path != created_.rend(); ++path) ::rmdir(path->c_str());
    if (!created_.empty()) sweep_temporary_folders(temporary_);
}

std::string LogFolder::round(const PathFacts& facts, int round) {
    if (!files_) return {};
    round_ = round;
    // A cleaner of the temporary files takes what is old, also from a job that runs; the name may be another
    // user's by now.
    if (!job_.empty() && ::access(job_.c_str(), F_OK) != 0) job_.clear();
    if (job_.empty()) create_base(facts);
    if (bare_) return job_ = base_;
    if (job_.empty()) {
        job_ = make_unique(base_ + "/" + run_folder_name(facts), !chosen_by_user_);
        created_.push_back(job_);
        // The user's own place may be below /tmp, too.
        if (chosen_by_user_) claim_ = FolderClaim(job_);
    }
    std::string path = fmt::format("{}/attempt_{}", job_, round);
    create(path);
    return path;
}

std::string LogFolder::worker(const std::string& round_folder, int local_rank) {
    if (!files_ || bare_) return round_folder;
    std::string path = fmt::format("{}/{}", round_folder, local_rank);
    create(path);
    return path;
}

std::string LogFolder::error_file(const std::string& worker_folder, int local_rank) const {
    if (worker_folder.empty()) return {};
    if (!bare_) return worker_folder + "/error.json";
    return fmt::format("{}/attempt_{}_{}_error.json", worker_folder, round_, local_rank);
}

void LogFolder::create_base(const PathFacts& facts) {
    if (!chosen_by_user_) {
        base_ = make_unique(temporary_ + "/ddprun", true);
        created_.push_back(base_);
        claim_ = FolderClaim(base_);
        return;
    }
    base_ = filled_path(chosen_, facts);
    std::error_code error;
    std::filesystem::create_directories(base_, error);
    if (error) refuse(error.value(), base_);
}

void LogFolder::create(const std::string& path) {
    struct stat own {
    }, there{};
    if (::mkdir(path.c_str(), kLogFolderMode) == 0) {
        created_.push_back(path);
        return;
    }
    if (errno != EEXIST) refuse(errno, path);
    // A group that may write here may have made it. Some network file systems have another number for this
    // user.
    const bool is_known = ::stat(job_.c_str(), &own) == 0 && ::lstat(path.c_str(), &there) == 0;
    if (!is_known || !S_ISDIR(there.st_mode) || there.st_uid != own.st_uid) refuse(EEXIST, path);
}

std::string temporary_folder(const Environment& environment) {
    const auto chosen = environment.find("TMPDIR");
    return chosen == environment.end() ? "/tmp" : chosen->second;
}

std::optional<std::string> log_dir_complaint(const OutputPlan& plan) {
    if (!plan.files || plan.log_dir.empty()) return {};
    const std::string flag = fmt::format("--log-dir '{}': ", plan.log_dir);
    std::error_code trouble;
    const std::filesystem::path folder = fixed_part(plan.log_dir);
    if (const auto status = std::filesystem::status(folder, trouble);
        std::filesystem::exists(status) && !std::filesystem::is_directory(status))
        return flag + "is there, but is no folder";
    std::filesystem::create_directories(folder, trouble);
    if (trouble) return flag + "cannot be made: " + trouble.message();
    if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
    return flag + "nothing can be written there: " + std::strerror(errno);
}

namespace {

// A line end is looked for so far from the wanted place.
constexpr std::uint64_t kNear = 4096;

constexpr std::size_t kMoveStep = std::size_t{1} << 20;

// Reads the bytes of the file from `offset` on, fewer at its end; none if it cannot be read.
std::string_view read_at(int fd, char* buffer, std::size_t size, std::uint64_t offset) {
    ssize_t count = 0;
    do {
        count = ::pread(fd, buffer, size, static_cast<off_t>(offset));
    } while (count < 0 && errno == EINTR);
    return {buffer, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

// As long as it lives, what is written goes where it is to go, and not behind all that is there.
class InPlace {
  public:
    explicit InPlace(int fd) : fd_(fd), flags_(::fcntl(fd, F_GETFL)) {
        ::fcntl(fd_, F_SETFL, flags_ & ~O_APPEND);
    }
    InPlace(const InPlace&) = delete;
    InPlace& operator=(const InPlace&) = delete;
    ~InPlace() { ::fcntl(fd_, F_SETFL, flags_); }

  private:
    int fd_;
    int flags_;
};

}  // namespace

LogFile::LogFile(std::string path, std::uint64_t limit, WriteFunction write)
    : path_(std::move(path)), limit_(limit), write_(std::move(write)) {
    fd_.reset(
        ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kLogFileMode));
    if (!fd_) error_number_ = errno;
}

LogFile::~LogFile() {
    if (fd_) cut();
}

void LogFile::write(std::string_view bytes) {
    if (!fd_) {
        dropped_ += bytes.size();
        return;
    }
    // What is written takes the place of the unfinished line that was shown.
    if (shown_ > 0) cut();
    if (limit_ != 0) look();
    while (limit_ != 0 && size_ + bytes.size() > limit_) {
        const auto room = std::min<std::uint64_t>(bytes.size(), limit_ - size_);
        append(bytes.substr(0, room));
        bytes.remove_prefix(room);
        const bool full = size_ == limit_;
        if (!full || !take_out_middle()) {
            dropped_ += bytes.size();
            bytes = {};
        }
    }
    append(bytes);
}

void LogFile::show_unfinished(std::string_view text) {
    if (!fd_) return;
    cut();
    if (limit_ != 0 && size_ + text.size() > limit_) return;
    const ssize_t count = write_(fd_.get(), text.data(), text.size(), static_cast<off_t>(size_));
    if (count > 0) shown_ = static_cast<std::uint64_t>(count);
}

void LogFile::append(std::string_view bytes) {
    const std::uint64_t before = size_;
    if (!write_at(size_, bytes)) dropped_ += bytes.size() - (size_ - before);
}

bool LogFile::write_at(std::uint64_t& offset, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = write_(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
            error_number_ = count < 0 ? errno : ENOSPC;
            return false;
        }
        offset += static_cast<std::uint64_t>(count);
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
}

// Whoever rotates logs may have emptied it, and then nothing of what was written stands in it any more.
void LogFile::look() {
    struct stat info {};
    const std::uint64_t known = size_ + shown_;
    if (::fstat(fd_.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
    const auto size = static_cast<std::uint64_t>(info.st_size);
    if (size == known) return;
    if (size < known) head_ = tail_start_ = left_out_ = 0;
    size_ = size;
    shown_ = 0;
}

void LogFile::cut() {
    look();
    if (std::exchange(shown_, 0) == 0) return;
    // It only becomes shorter, which a full disk does not hinder.
    if (::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) error_number_ = errno;
}

std::uint64_t LogFile::head_limit() const { return std::min(limit_ / 4, kMaxHead); }

std::uint64_t LogFile::line_end_before(std::uint64_t offset) const {
    std::array<char, kNear> buffer{};
    const std::uint64_t from = offset - std::min<std::uint64_t>(offset, buffer.size());
    const auto text = read_at(fd_.get(), buffer.data(), offset - from, from);
    const auto newline = text.rfind('\n');
    return newline == std::string_view::npos ? offset : from + newline + 1;
}

std::uint64_t LogFile::line_start_after(std::uint64_t offset) const {
    std::array<char, kNear> buffer{};
    const auto text = read_at(fd_.get(), buffer.data(), buffer.size(), offset);
    const auto newline = text.find('\n');
    return newline == std::string_view::npos ? offset : offset + newline + 1;
}

// Half of the tail goes at a time, so every byte is moved at most once on average.
bool LogFile::take_out_middle() {
    if (left_out_ == 0) {
        head_ = line_end_before(head_limit());
        tail_start_ = head_;
    }
    const InPlace in_place(fd_.get());
    const std::uint64_t keep_from = line_start_after(tail_start_ + (size_ - tail_start_) / 2);
    const std::uint64_t left_out = left_out_ + (keep_from - tail_start_);
    const std::string note =
        fmt::format("\n[ddprun: {} bytes were left out here, see --log-max]\n", left_out);
    const std::uint64_t tail_start = head_ + note.size();
    if (keep_from <= tail_start || !move_down(keep_from, tail_start)) return false;
    const std::uint64_t tail_size = size_ - keep_from;
    if (write_(fd_.get(), note.data(), note.size(), static_cast<off_t>(head_)) < 0) error_number_ = errno;
    left_out_ = left_out;
    tail_start_ = tail_start;
    shown_ = size_ - (tail_start + tail_size);
    size_ = tail_start + tail_size;
    cut();
    return true;
}

bool LogFile::move_down(std::uint64_t from, std::uint64_t to) {
    std::vector<char> buffer(std::min<std::uint64_t>(kMoveStep, size_ - from));
    while (from < size_) {
        const auto bytes =
            read_at(fd_.get(), buffer.data(), std::min<std::uint64_t>(buffer.size(), size_ - from), from);
        if (bytes.empty() || !write_at(to, bytes)) return false;
        from += bytes.size();
    }
    return true;
}

}  // namespace launch
}  // namespace ddprun
