#include "launcher/jobs/job_folder.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "launcher/folder_claim.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/process/end_descriptor.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline launch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStartingPrefix = ".starting-";
// Between the making of a folder and its launcher's claim on it lies a fork.
constexpr std::chrono::seconds kForkTimeout{60};
// Where claims mean nothing, a launcher of another PID namespace or machine may be starting for so long.
constexpr std::chrono::hours kUnclaimableTimeout{24};
// A record is small but for its command; a result has some 300 bytes for each rank.
constexpr std::size_t kMaxRecordFile = 1 << 20;
constexpr std::size_t kMaxResultFile = 64 << 20;
// How many ids an error names.
constexpr std::size_t kMaxIdsNamed = 10;

std::string quoted(const fs::path& path) { return "'" + harmless_line(path.string()) + "'"; }

std::optional<JobRecord> read_record(const fs::path& folder) {
    const auto text = read_small_file(folder / "job.json", kMaxRecordFile);
    return text.has_value() ? parse_job_record(*text) : std::nullopt;
}

Job read_job(const fs::path& folder) {
    Job job{.id = folder.filename().string(), .folder = folder, .record = read_record(folder), .end = {}};
    const bool lived = launcher_lives(job);
    // Read after the look at the launcher: one that ended in between has written its result before.
    if (const auto text = read_small_file(folder / "result.json", kMaxResultFile); text.has_value())
        job.end = parse_job_end(*text);
    job.state = job.end ? JobState::ended : lived ? JobState::running : JobState::lost;
    struct stat output {};
    if (job.state == JobState::lost && ::stat((folder / "output").c_str(), &output) == 0)
        job.last_output_unix_ms =
            std::int64_t{output.st_mtim.tv_sec} * 1000 + output.st_mtim.tv_nsec / 1'000'000;
    return job;
}

bool process_lives(const JobRecord& record) {
    const auto process = read_process_stat(record.pid);
    return process && !process->ended() && process->start_time == record.start_time;
}

// When the job ended; of a lost one, when something was last printed.
fs::file_time_type end_time(const Job& job) {
    std::error_code none;
    const auto time = fs::last_write_time(job.folder / (job.end ? "result.json" : "output"), none);
    return none ? fs::file_time_type::min() : time;
}

bool is_left_over(const fs::path& starting) {
    const ClaimState claim = claim_on(starting);
    const auto record = read_record(starting);
    if (claim == ClaimState::held || (record && process_lives(*record))) return false;
    std::error_code none;
    const auto touched = fs::last_write_time(starting, none);
    const auto age = fs::file_time_type::clock::now() - touched;
    return !none && (claim == ClaimState::free ? age > kForkTimeout : age > kUnclaimableTimeout);
}

std::string ids_of(const std::vector<const Job*>& jobs) {
    std::string text;
    for (std::size_t i = 0; i < std::min(jobs.size(), kMaxIdsNamed); ++i)
        text += (i == 0 ? "" : ", ") + harmless_line(jobs[i]->id);
    if (jobs.size() > kMaxIdsNamed) text += fmt::format(" and {} more", jobs.size() - kMaxIdsNamed);
    return text;
}

std::vector<fs::path> folders_in(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code none;
    for (fs::directory_iterator entry(folder, none), end; !none && entry != end; entry.increment(none)) {
        std::error_code vanished;
        if (fs::is_directory(entry->symlink_status(vanished))) found.push_back(entry->path());
    }
    return found;
}

bool is_starting(const fs::path& folder) { return folder.filename().string().front() == '.'; }

}  // namespace

fs::path make_starting_folder(const fs::path& jobs) {
    std::string name = (jobs / kStartingPrefix).string() + "XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) fail_errno(errno, "cannot make a folder in " + quoted(jobs));
    return name;
}

void remove_starting_folder(const fs::path& starting) {
    std::error_code ignored;
    fs::remove_all(starting, ignored);
}

fs::path publish_job_folder(const fs::path& starting, const std::string& id) {
    fs::path folder = starting.parent_path() / id;
    if (::rename(starting.c_str(), folder.c_str()) != 0) fail_errno(errno, "cannot make " + quoted(folder));
    return folder;
}

std::vector<Job> list_jobs(const fs::path& jobs) {
    std::vector<Job> found;
    for (const fs::path& folder : folders_in(jobs)) {
        if (!is_starting(folder)) found.push_back(read_job(folder));
    }
    std::sort(found.begin(), found.end(), [](const Job& a, const Job& b) {
        const auto start = [](const Job& job) { return job.record ? job.record->start_unix_ms : 0; };
        return std::pair(start(a), a.id) < std::pair(start(b), b.id);
    });
    return found;
}

bool launcher_lives(const Job& job) {
    return claim_on(job.folder) == ClaimState::held || (job.record && process_lives(*job.record));
}

std::optional<OwnedDescriptor> open_launcher(const Job& job) {
    if (!job.record) return std::nullopt;
    OwnedDescriptor process = open_process(job.record->pid);
    if (!process && errno != ESRCH)
        fail_errno(errno, fmt::format("cannot watch process {} (that takes Linux 5.3)", job.record->pid));
    // The look comes after the opening: now the number cannot be given to another process unnoticed.
    if (process && process_lives(*job.record)) return process;
    // A process lets go of its claim before it has ended.
    if (claim_on(job.folder) != ClaimState::held) return std::nullopt;
    fail(Errc::refused,
         fmt::format("the launcher of job {} runs in another PID namespace (a container), where "
                     "ddpctl has to be run to see its end; 'kill --no-wait' works from here, too",
                     harmless_line(job.id)));
}

std::variant<Job, std::string> find_job(const std::vector<Job>& jobs, std::string_view id) {
    const std::string shown = "'" + harmless_line(id) + "'";
    std::vector<const Job*> all;
    std::vector<const Job*> matches;
    for (const Job& job : jobs) {
        if (job.id == id) return job;
        all.push_back(&job);
        if (job.id.starts_with(id) && !id.empty()) matches.push_back(&job);
    }
    if (matches.size() == 1) return *matches.front();
    if (matches.size() > 1) return shown + " is the beginning of several ids: " + ids_of(matches);
    if (all.empty()) return "no job " + shown + "; there is none at all";
    return "no job " + shown + "; there are " + ids_of(all);
}

void prune_jobs(const fs::path& jobs, std::size_t kept) {
    // What another launcher removes at the same time is gone as well, so no error matters here.
    std::error_code ignored;
    for (const fs::path& folder : folders_in(jobs)) {
        if (folder.filename().string().starts_with(kStartingPrefix) && is_left_over(folder))
            fs::remove_all(folder, ignored);
    }
    std::vector<std::pair<fs::file_time_type, fs::path>> ended;
    for (const Job& job : list_jobs(jobs)) {
        if (job.state != JobState::running) ended.emplace_back(end_time(job), job.folder);
    }
    if (ended.size() <= kept) return;
    std::sort(ended.begin(), ended.end());
    ended.resize(ended.size() - kept);
    for (const auto& [time, folder] : ended) fs::remove_all(folder, ignored);
}

}  // namespace ddprun::inline launch
