#include "launcher/process/job_cgroup.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "launcher/harmless_text.hpp"
#include "launcher/look/mounts.hpp"
#include "rendezvous/system/machine.hpp"
#include "rendezvous/system/resource_limits.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr mode_t kFolderMode = 0755;
constexpr std::size_t kMaxControlFile = 16 * 1024 * 1024;  // mountinfo, on a host with many containers
constexpr std::string_view kWorkerPrefix = "worker-";

// Nothing depends on whether it works, so nobody is told.
void write_control(const std::filesystem::path& file, std::string_view text) {
    const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    [[maybe_unused]] const ssize_t written = ::write(fd, text.data(), text.size());
    ::close(fd);
}

// The text is empty if the file cannot be read.
std::string read_control(const std::filesystem::path& file) {
    auto text = read_small_file(file, kMaxControlFile);
    return text.has_value() ? std::move(*text) : std::string();
}

bool has_word(std::string_view line, std::string_view wanted) {
    const auto words = split_at(line.substr(0, line.find('\n')), ' ');
    return std::find(words.begin(), words.end(), wanted) != words.end();
}

// Returns `path` as it is seen below `root`; both are absolute.
std::optional<std::string> relative_to(const std::string& path, const std::string& root) {
    if (root == "/") return path;
    if (path == root) return "/";
    if (path.rfind(root + "/", 0) == 0) return path.substr(root.size());
    return std::nullopt;
}

}  // namespace

std::optional<std::filesystem::path> cgroup_folder(std::string_view cgroup, std::string_view mountinfo) {
    const auto path = parse_cgroup_folders(cgroup).unified;
    if (!path || path->find("/..") != std::string::npos) return std::nullopt;
    for (const std::string_view line : lines_of(mountinfo)) {
        // A line is: 35 24 0:30 ROOT MOUNT_POINT OPTIONS [optional fields…] - TYPE SOURCE SUPER_OPTIONS
        const auto separator = line.find(" - cgroup2 ");
        if (separator == std::string::npos) continue;
        const auto fields = split_at(line.substr(0, separator), ' ');
        if (fields.size() < 6) continue;
        const auto below = relative_to(*path, unescaped_place(fields[3]));
        if (below) return (std::filesystem::path(unescaped_place(fields[4]) + *below)).lexically_normal();
    }
    return std::nullopt;
}

std::optional<std::filesystem::path> own_cgroup_folder(const std::filesystem::path& proc) {
    return cgroup_folder(read_control(proc / "self/cgroup"), read_control(proc / "self/mountinfo"));
}

std::optional<JobCgroup> JobCgroup::make(const std::filesystem::path& parent, int workers) {
    // A folder that is no cgroup would take our subfolder as well.
    if (::access((parent / "cgroup.procs").c_str(), W_OK) != 0) return std::nullopt;
    const std::string random = hex_text(random_bytes<4>("the job's cgroup"));
    JobCgroup job(parent / fmt::format("ddprun-{}-{}", ::getpid(), random), workers);
    if (::mkdir(job.path_.c_str(), kFolderMode) != 0) return std::nullopt;
    if (has_word(read_control(job.path_ / "cgroup.controllers"), "memory")) {
        write_control(job.path_ / "cgroup.subtree_control", "+memory");
    }
    return job;
}

std::filesystem::path JobCgroup::worker_path(int local_rank) const {
    return path_ / fmt::format("{}{}", kWorkerPrefix, local_rank);
}

void JobCgroup::note(int local_rank, bool is_used) {
    used_.erase(local_rank);
    if (is_used) used_.insert(local_rank);
}

std::filesystem::path JobCgroup::used_path(int local_rank) const {
    return used_.contains(local_rank) ? worker_path(local_rank) : std::filesystem::path();
}

void JobCgroup::make_ahead() {
    for (int local_rank = 0; local_rank < workers_; ++local_rank) {
        if (::mkdir(worker_path(local_rank).c_str(), kFolderMode) != 0) return;
        made_ahead_.insert(local_rank);
    }
}

int JobCgroup::open_worker(int local_rank) {
    const auto folder = worker_path(local_rank);
    if (made_ahead_.erase(local_rank) == 0 && ::mkdir(folder.c_str(), kFolderMode) != 0) {
        if (errno != EEXIST) return -1;
        // The folder of the round before has counted that round's memory events.
        ::rmdir(folder.c_str());
        if (::mkdir(folder.c_str(), kFolderMode) != 0 && errno != EEXIST) return -1;
    }
    return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void JobCgroup::kill() const { write_control(path_ / "cgroup.kill", "1"); }

void JobCgroup::remove() const {
    std::error_code error;
    std::vector<std::filesystem::path> folders;
    for (std::filesystem::directory_iterator entries(path_, error), end; !error && entries != end;
         entries.increment(error)) {
        if (entries->path().filename().string().rfind(kWorkerPrefix, 0) == 0)
            folders.push_back(entries->path());
    }
    for (const auto& folder : folders) ::rmdir(folder.c_str());
    ::rmdir(path_.c_str());
}

}  // namespace launch
}  // namespace ddprun
