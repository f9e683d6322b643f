#include "launcher/output/log_folder.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "launcher/folder_sweep.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline launch {
namespace {

// Of the --rdzv-id, beside a number and a host's name (HOST_NAME_MAX is 64).
constexpr std::size_t kMaxSharedId = 150;

[[noreturn]] void refuse(int error_number, const std::string& path) {
    fail_errno(error_number, "cannot create the folder " + path + " for logs and error files (--log-dir)");
}

std::string run_folder_name(const PathFacts& facts) {
    const std::string id = as_path_part(facts.run_id);
    if (facts.node_rank < 0) return id;
    return fmt::format("{}_node{}_{}", id.substr(0, kMaxSharedId), facts.node_rank, as_path_part(facts.host));
}

std::string make_unique(const std::string& start) {
    std::string path = start + "_XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) refuse(errno, path);
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
    // What holds a file stays: rmdir refuses it.
    for (auto path = created_.rbegin(); path != created_.rend(); ++path) ::rmdir(path->c_str());
    if (!created_.empty()) sweep_temporary_folders(temporary_);
}

std::string LogFolder::round(const PathFacts& facts, int round) {
    if (!files_) return {};
    round_ = round;
    // Whoever cleans the temporary files takes what is old, also from a job that runs; the name may be another
    // user's by now.
    if (!job_.empty() && ::access(job_.c_str(), F_OK) != 0) job_.clear();
    if (job_.empty()) create_base(facts);
    if (bare_) return job_ = base_;
    if (job_.empty()) {
        job_ = make_unique(base_ + "/" + run_folder_name(facts));
        created_.push_back(job_);
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
        base_ = make_unique(temporary_ + "/ddprun");
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
    if (::mkdir(path.c_str(), 0777) == 0) {
        created_.push_back(path);
    } else if (errno != EEXIST) {
        refuse(errno, path);
    }
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

}  // namespace ddprun::inline launch
