#include "launcher/jobs/job_folder.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <concepts>

#include "launcher/folder_claim.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/process/descriptors.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/secret_name.hpp"
#include "launcher/secret_text.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/control/job_command.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace json = boost::json;

constexpr int kRecordSchema = 1;
constexpr std::size_t kMaxJobFileDepth = 8;
constexpr std::string_view kNameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

std::vector<std::string> recorded(const std::vector<std::string>& command) {
    std::vector<std::string> words;
    std::size_t bytes = 0;
    for (const std::string& word : command) {
        bytes += word.size();
        words.push_back(bytes > kMaxCommandBytes ? "..." : word);
        if (bytes > kMaxCommandBytes) break;
    }
    return words;
}

struct RecordRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return valid_utf8(text); }
};

// The workers are those of the result's ranks that this node had. Of a lost rank nothing is known, so it is
// passed over.
struct EndRules : JsonRules {
    // Launchers before 0.2 wrote no sentence.
    template <std::same_as<std::string> T>
    static bool take(const json::object& in, std::string_view name, T& text) {
        return take_member<JsonRules>(in, name, text) || (name == "sentence" && !in.contains(name));
    }

    template <std::same_as<std::vector<WorkerStatus>> T>
    static bool take(const json::object& in, std::string_view, T& workers) {
        int node_rank = 0;
        if (!take_member<JsonRules>(in, "node_rank", node_rank)) return false;
        const json::value* ranks = in.if_contains("ranks");
        if (ranks == nullptr || !ranks->is_array()) return true;
        for (const json::value& entry : ranks->get_array()) {
            WorkerStatus worker;
            int node = 0;
            if (from_json<JsonRules>(entry, worker) && worker.exit_code &&
                take_member<JsonRules>(entry.get_object(), "node_rank", node) && node == node_rank) {
                workers.push_back(worker);
            }
        }
        return true;
    }
};

template <class Rules, class T>
std::optional<T> read(std::string_view text) {
    const auto root = parse_json_object(text, kMaxJobFileDepth);
    T facts;
    if (!root || !take_members<Rules>(*root, facts)) return std::nullopt;
    return facts;
}

}  // namespace

std::string to_json(const JobRecord& record) {
    JobRecord bounded = record;
    bounded.command = recorded(record.command);
    json::object root{{"schema", kRecordSchema}};
    put_members<RecordRules>(root, bounded);
    return json::serialize(root) + "\n";
}

std::optional<JobRecord> parse_job_record(std::string_view text) {
    auto record = read<RecordRules, JobRecord>(text);
    return record && record->pid > 0 ? record : std::nullopt;
}

std::optional<JobEnd> parse_job_end(std::string_view text) { return read<EndRules, JobEnd>(text); }

std::string job_name(std::string_view entry_name, std::string_view job_id) {
    entry_name.remove_prefix(std::min(entry_name.size(), entry_name.rfind('/') + 1));
    for (const std::string_view ending : {".py", ".sh"}) {
        if (entry_name.ends_with(ending)) entry_name.remove_suffix(ending.size());
    }
    constexpr std::size_t kSigns = 4;
    std::string name(entry_name.substr(0, kMaxJobName - kSigns - 1));
    for (char& byte : name) {
        if (kNameBytes.find(byte) == std::string_view::npos) byte = '_';
    }
    // A name that begins with a dot is a job's that starts, with a dash an option.
    if (name.empty()) name = "job";
    if (name.front() == '.' || name.front() == '-') name.front() = '_';
    Digest digest;
    digest.add(job_id);
    return fmt::format("{}-{:04x}", name, digest.value() % (1U << (4 * kSigns)));
}

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

namespace {

namespace json = boost::json;

constexpr std::string_view kRunKind = "ddprun run";
constexpr int kRunSchema = 1;
constexpr std::size_t kMaxRunDepth = 8;
// What decides how a job runs is said by these; a value of any other may be about the user.
constexpr std::array<std::string_view, 6> kRecordedFamilies = {"NCCL_",  "CUDA_", "OMP_",
                                                               "TORCH_", "GLOO_", "DDPRUN_"};
struct RunRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return valid_utf8(text); }

    template <std::same_as<Environment> T>
    static void put(json::object& out, std::string_view name, const T& variables) {
        json::object object;
        for (const auto& [variable, value] : variables) object[valid_utf8(variable)] = valid_utf8(value);
        out[name] = std::move(object);
    }
    template <std::same_as<Environment> T>
    static bool take(const json::object& in, std::string_view name, T& variables) {
        const json::value* member = in.if_contains(name);
        if (member == nullptr || !member->is_object()) return false;
        for (const auto& [variable, value] : member->get_object()) {
            if (!value.is_string() || variable.empty() || variable.find('=') != variable.npos) return false;
            variables[std::string(variable)] = std::string(value.get_string());
        }
        return true;
    }
};

}  // namespace

std::string to_json(const RunRecord& record) {
    json::object root{{"kind", kRunKind}, {"schema", kRunSchema}};
    put_members<RunRules>(root, record);
    return json::serialize(root) + "\n";
}

std::optional<RunRecord> parse_run_record(std::string_view text) {
    const auto root = parse_json_object(text, kMaxRunDepth);
    RunRecord record;
    if (!root) return std::nullopt;
    const json::value* kind = root->if_contains("kind");
    const bool is_ours = kind != nullptr && kind->is_string() && kind->get_string() == kRunKind;
    if (!is_ours || !take_members<RunRules>(*root, record)) return std::nullopt;
    return record;
}

RecordedVariables recorded_variables(const Environment& environment) {
    RecordedVariables recorded;
    for (const auto& [name, value] : environment) {
        recorded.names.push_back(name);
        const bool is_kept =
            std::any_of(kRecordedFamilies.begin(), kRecordedFamilies.end(),
                        [&name = name](std::string_view family) { return name.starts_with(family); });
        if (is_kept && !is_secret_name(name)) recorded.values[name] = masked_text(value);
    }
    return recorded;
}

}  // namespace launch
}  // namespace ddprun
