#include "launcher/jobs/job_folder.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <system_error>
#include <utility>

#include "launcher/folder_claim.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/jobs/jobs_place.hpp"
#include "launcher/process/descriptors.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace fs = std::filesystem;

// Of one program and the same four signs.
constexpr int kMaxJobsOfAName = 100;
constexpr std::string_view kStartingPrefix = ".starting-";
constexpr std::string_view kMadeSigns = "XXXXXX";  // mkdtemp()'s
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
    const auto text = read_small_file(folder / kRecordName, kMaxRecordFile);
    return text.has_value() ? parse_job_record(*text) : std::nullopt;
}

bool is_stopped(const JobRecord& record) {
    const auto process = read_process_stat(record.pid);
    return process && process->state == 'T' && process->start_time == record.start_time;
}

Job read_job(const fs::path& folder) {
    Job job{.id = folder.filename().string(), .folder = folder, .record = read_record(folder), .end = {}};
    const bool lived = launcher_lives(job);
    // Read after the look at the launcher: one that ended in between has written its result before.
    if (const auto text = read_small_file(folder / kResultName, kMaxResultFile); text.has_value())
        job.end = parse_job_end(*text);
    job.state = job.end ? JobState::ended : lived ? JobState::running : JobState::lost;
    job.is_suspended = job.state == JobState::running && job.record && is_stopped(*job.record);
    struct stat output {};
    if (job.state == JobState::lost && ::stat((folder / kOutputName).c_str(), &output) == 0)
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
    const auto time = fs::last_write_time(job.folder / (job.end ? kResultName : kOutputName), none);
    return none ? fs::file_time_type::min() : time;
}

bool is_starting(const fs::path& folder) { return folder.filename().string().front() == '.'; }

bool has_file(const fs::path& path) { return ::access(path.c_str(), F_OK) == 0; }

// The jobs folder may be one that has much else in it.
bool is_of_a_launcher(const fs::path& folder) {
    const std::string name = folder.filename().string();
    const bool is_made =
        name.starts_with(kStartingPrefix) && name.size() == kStartingPrefix.size() + kMadeSigns.size();
    return is_made || has_file(folder / kRecordName);
}

// True for a job that is of no interest to anybody once its launcher has ended: its workers never ran, or it
// ran in the foreground.
bool leaves_nothing(const fs::path& folder) {
    if (folder.filename().string().starts_with(kStartingPrefix)) return true;
    return !has_file(folder / kOutputName) && !has_file(folder / kResultName);
}

// Says whether a launcher puts such a file into a job's folder: by its name, or a name beside it that has not
// been replaced yet (replace_file). A socket is of no use to anybody any more.
bool is_a_launchers(const fs::directory_entry& entry) {
    std::error_code vanished;
    const auto type = entry.symlink_status(vanished).type();
    const std::string name = entry.path().filename().string();
    const bool is_named = std::find(kJobFiles.begin(), kJobFiles.end(), name) != kJobFiles.end();
    return type == fs::file_type::socket ||
           (type == fs::file_type::regular && (is_named || name.starts_with(kFreshFile)));
}

bool is_left_over(const fs::path& folder) {
    if (!is_of_a_launcher(folder)) return false;
    const ClaimState claim = leaves_nothing(folder) ? claim_on(folder) : ClaimState::held;
    if (claim == ClaimState::held) return false;
    std::error_code none;
    const auto touched = fs::last_write_time(folder, none);
    const auto age = fs::file_time_type::clock::now() - touched;
    if (none || age <= (claim == ClaimState::free ? kForkTimeout : kUnclaimableTimeout)) return false;
    // Last, since every launcher asks: none looks at the processes of jobs that run.
    const auto record = read_record(folder);
    return record ? !process_lives(*record) : is_starting(folder);
}

std::string ids_of(const std::vector<const Job*>& jobs) {
    std::string text;
    for (std::size_t i = 0; i < std::min(jobs.size(), kMaxIdsNamed); ++i)
        text += (i == 0 ? "" : ", ") + harmless_line(jobs[i]->id);
    if (jobs.size() > kMaxIdsNamed) text += fmt::format(" and {} more", jobs.size() - kMaxIdsNamed);
    return text;
}

}  // namespace

fs::path make_starting_folder(const fs::path& jobs) {
    std::string name = (jobs / kStartingPrefix).string().append(kMadeSigns);
    if (::mkdtemp(name.data()) == nullptr) fail_making("a folder in " + shown_path(jobs));
    return name;
}

void remove_job_folder(const fs::path& folder) {
    std::error_code none, ignored;
    for (fs::directory_iterator entry(folder, none), end; !none && entry != end; entry.increment(none)) {
        if (is_a_launchers(*entry)) fs::remove(entry->path(), ignored);
    }
    ::rmdir(folder.c_str());
}

fs::path publish_job_folder(const fs::path& starting, const std::string& name) {
    const fs::path first = starting.parent_path() / name;
    fs::path folder = first;
    // The name of a folder in which something is stays with it.
    for (int number = 2; ::rename(starting.c_str(), folder.c_str()) != 0; ++number) {
        if ((errno != EEXIST && errno != ENOTEMPTY) || number > kMaxJobsOfAName)
            fail_errno(errno, "cannot make " + shown_path(folder));
        folder = fmt::format("{}-{}", first.string(), number);
    }
    return folder;
}

std::vector<Job> list_jobs(const fs::path& jobs) {
    std::vector<Job> found;
    for (const fs::path& folder : folders_in(jobs)) {
        if (!is_starting(folder) && is_of_a_launcher(folder)) found.push_back(read_job(folder));
    }
    std::sort(found.begin(), found.end(), [](const Job& a, const Job& b) {
        const auto start = [](const Job& job) { return job.record ? job.record->start_unix_ms : 0; };
        return std::pair(start(a), a.id) < std::pair(start(b), b.id);
    });
    return found;
}

bool is_in_foreground(const Job& job) { return !has_file(job.folder / kOutputName); }

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

// Says whether job_name() has made the id of this program, perhaps with a number of publish_job_folder().
bool is_called(std::string_view id, std::string_view program) {
    if (!id.starts_with(program)) return false;
    const std::string_view signs = id.substr(program.size());
    const auto is_hex = [](char sign) { return std::isxdigit(static_cast<unsigned char>(sign)) != 0; };
    const bool has_signs = signs.size() > kNameSigns && signs.front() == '-' &&
                           std::all_of(signs.begin() + 1, signs.begin() + 1 + kNameSigns, is_hex);
    return has_signs && (signs.size() == kNameSigns + 1 || signs[kNameSigns + 1] == '-');
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
    // "train" is train.py's, however many programs' names begin so.
    std::vector<const Job*> named;
    std::copy_if(matches.begin(), matches.end(), std::back_inserter(named),
                 [id](const Job* job) { return is_called(job->id, id); });
    if (!named.empty()) matches = std::move(named);
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
        const bool is_understood = job.record || job.end;
        if (is_understood && job.state != JobState::running) ended.emplace_back(end_time(job), job.folder);
    }
    if (ended.size() <= kept) return;
    std::sort(ended.begin(), ended.end());
    ended.resize(ended.size() - kept);
    for (const auto& [time, folder] : ended) remove_job_folder(folder);
}

}  // namespace launch
}  // namespace ddprun
