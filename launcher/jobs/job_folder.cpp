#include "launcher/jobs/job_folder.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "launcher/folder_claim.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/process/descriptors.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kPrivate = 0700;
constexpr mode_t kOthers = 077;
std::string shown(const fs::path& path) { return "'" + harmless_line(path.string()) + "'"; }

void refuse(const fs::path& folder, const std::string& why) {
    fail(Errc::refused, fmt::format("{} cannot hold jobs: {}; remove it, or set {} to a folder of your own",
                                    shown(folder), why, kJobsVariable));
}

// Whoever follows the advice needs to know that ddpctl goes by the variable, too.
void fail_making(const std::string& what) {
    fail_errno(errno, fmt::format("cannot make {} ({} may name another folder, here and for ddpctl)", what,
                                  kJobsVariable));
}

fs::path usual_folder(const JobsPlace& place) { return place.shared / fmt::format("ddprun-{}", place.uid); }

std::vector<fs::path> folders_in(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code none;
    for (fs::directory_iterator entry(folder, none), end; !none && entry != end; entry.increment(none)) {
        std::error_code vanished;
        if (fs::is_directory(entry->symlink_status(vanished))) found.push_back(entry->path());
    }
    return found;
}

bool is_private(const fs::path& folder, uid_t uid) {
    struct stat info {};
    return ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == uid &&
           (info.st_mode & kOthers) == 0;
}

// Returns the folder that was made beside the usual one; empty: none is there, as after a reboot. Nobody else
// can make one that is this user's.
fs::path folder_beside(const JobsPlace& place) {
    const std::string begin = usual_folder(place).filename().string() + "-";
    fs::path first;
    for (const fs::path& folder : folders_in(place.shared)) {
        const bool is_one = folder.filename().string().starts_with(begin) && is_private(folder, place.uid);
        if (is_one && (first.empty() || folder < first)) first = folder;
    }
    return first;
}

fs::path make_beside(const JobsPlace& place) {
    std::string folder = usual_folder(place).string() + "-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) fail_making(shown(folder));
    return folder;
}

// Of one program and the same four signs.
constexpr int kMaxJobsOfAName = 100;
constexpr std::string_view kStartingPrefix = ".starting-";
// Between the making of a folder and its launcher's claim on it lies a fork.
constexpr std::chrono::seconds kForkTimeout{60};
// A launcher of another PID namespace or machine, where claims mean nothing, may be starting for so long.
constexpr std::chrono::hours kUnclaimableTimeout{24};
// A record is small but for its command; a result has some 300 bytes for each rank.
constexpr std::size_t kMaxRecordFile = 1 << 20;
constexpr std::size_t kMaxResultFile = 64 << 20;
// An error names so many ids.
constexpr std::size_t kMaxIdsNamed = 10;

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

// Returns when the job ended; of a lost one, when something was last printed.
fs::file_time_type end_time(const Job& job) {
    std::error_code none;
    const auto time = fs::last_write_time(job.folder / (job.end ? "result.json" : "output"), none);
    return none ? fs::file_time_type::min() : time;
}

// True for a job that is of no interest to anybody once its launcher has ended: its workers never ran, or it
// ran in the foreground.
bool leaves_nothing(const fs::path& folder) {
    if (folder.filename().string().starts_with(kStartingPrefix)) return true;
    return ::access((folder / "output").c_str(), F_OK) != 0 &&
           ::access((folder / "result.json").c_str(), F_OK) != 0;
}

bool is_left_over(const fs::path& folder) {
    const ClaimState claim = leaves_nothing(folder) ? claim_on(folder) : ClaimState::held;
    if (claim == ClaimState::held) return false;
    std::error_code none;
    const auto touched = fs::last_write_time(folder, none);
    const auto age = fs::file_time_type::clock::now() - touched;
    if (none || age <= (claim == ClaimState::free ? kForkTimeout : kUnclaimableTimeout)) return false;
    // Last, since every launcher asks: none looks at the processes of jobs that run.
    const auto record = read_record(folder);
    return !record || !process_lives(*record);
}

std::string ids_of(const std::vector<const Job*>& jobs) {
    std::string text;
    for (std::size_t i = 0; i < std::min(jobs.size(), kMaxIdsNamed); ++i)
        text += (i == 0 ? "" : ", ") + harmless_line(jobs[i]->id);
    if (jobs.size() > kMaxIdsNamed) text += fmt::format(" and {} more", jobs.size() - kMaxIdsNamed);
    return text;
}

bool is_starting(const fs::path& folder) { return folder.filename().string().front() == '.'; }

}  // namespace

fs::path find_jobs_folder(const JobsPlace& place) {
    const std::string* named = find_variable(place.environment, kJobsVariable);
    if (named != nullptr && !named->empty()) return fs::absolute(*named) / "ddprun";
    const fs::path usual = usual_folder(place);
    struct stat info {};
    const bool is_there = ::lstat(usual.c_str(), &info) == 0;
    if (is_there && info.st_uid == place.uid) return usual;
    const fs::path beside = folder_beside(place);
    return beside.empty() && !is_there ? usual : beside;
}

fs::path make_jobs_folder(const JobsPlace& place) {
    fs::path folder = find_jobs_folder(place);
    if (folder.empty()) return make_beside(place);
    if (::mkdir(folder.c_str(), kPrivate) != 0 && errno != EEXIST) fail_making(shown(folder));
    is_private_folder(folder);
    return folder;
}

bool is_private_folder(const fs::path& folder) {
    const OwnedDescriptor held(::open(folder.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {
    }, above{};
    if (!held && errno == ENOENT) return false;
    if (!held || ::fstat(held.get(), &info) != 0) fail_errno(errno, "cannot look at " + shown(folder));
    if (S_ISLNK(info.st_mode)) refuse(folder, "it is a symbolic link");
    if (!S_ISDIR(info.st_mode)) refuse(folder, "it is no folder");
    if (info.st_uid != ::geteuid()) refuse(folder, fmt::format("it belongs to uid {}", info.st_uid));
    if ((info.st_mode & kOthers) != 0) refuse(folder, "others than its owner have permissions for it");
    // The folder's name is used, too.
    const OwnedDescriptor parent(::openat(held.get(), "..", O_PATH | O_CLOEXEC));
    if (!parent || ::fstat(parent.get(), &above) != 0)
        fail_errno(errno, "cannot look above " + shown(folder));
    if (others_may_write(above) && (above.st_mode & S_ISVTX) == 0)
        refuse(folder, "others can rename it, and put another one there");
    return true;
}

fs::path make_starting_folder(const fs::path& jobs) {
    std::string name = (jobs / kStartingPrefix).string() + "XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) fail_making("a folder in " + shown(jobs));
    return name;
}

void remove_job_folder(const fs::path& folder) {
    std::error_code ignored;
    if (!folder.empty()) fs::remove_all(folder, ignored);
}

fs::path publish_job_folder(const fs::path& starting, const std::string& name) {
    const fs::path first = starting.parent_path() / name;
    fs::path folder = first;
    // The name of a folder in which something is stays with it.
    for (int number = 2; ::rename(starting.c_str(), folder.c_str()) != 0; ++number) {
        if ((errno != EEXIST && errno != ENOTEMPTY) || number > kMaxJobsOfAName)
            fail_errno(errno, "cannot make " + shown(folder));
        folder = fmt::format("{}-{}", first.string(), number);
    }
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
    const auto runs = [](const Job* job) { return job->state == JobState::running; };
    if (std::count_if(matches.begin(), matches.end(), runs) == 1)
        return **std::find_if(matches.begin(), matches.end(), runs);
    if (matches.size() > 1) return shown + " is the beginning of several ids: " + ids_of(matches);
    if (all.empty()) return "no job " + shown + "; there is none at all";
    return "no job " + shown + "; there are " + ids_of(all);
}

// No error matters here: what another launcher removes at the same time is gone as well.
void remove_left_over(const fs::path& jobs) {
    for (const fs::path& folder : folders_in(jobs)) {
        if (is_left_over(folder)) remove_job_folder(folder);
    }
}

void prune_jobs(const fs::path& jobs, std::size_t kept) {
    remove_left_over(jobs);
    std::vector<std::pair<fs::file_time_type, fs::path>> ended;
    for (const Job& job : list_jobs(jobs)) {
        if (job.state != JobState::running) ended.emplace_back(end_time(job), job.folder);
    }
    if (ended.size() <= kept) return;
    std::sort(ended.begin(), ended.end());
    ended.resize(ended.size() - kept);
    for (const auto& [time, folder] : ended) remove_job_folder(folder);
}

}  // namespace launch
}  // namespace ddprun
