#include "launcher/report/failure_cause.hpp"

#include <fmt/core.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cerrno>
#include <csignal>
#include <vector>

#include "launcher/harmless_text.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/store/wire.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/number_text.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace json = boost::json;

constexpr std::size_t kBeginningShown = 200;

std::string bounded(std::string_view text) { return cut_middle(text, kMaxControlText); }

std::string text_of(const json::value* value) {
    if (value == nullptr || value->is_null()) return {};
    if (const json::string* text = value->if_string()) return bounded(*text);
    return bounded(json::serialize(*value));
}

std::optional<std::int64_t> time_of(const json::value* value) {
    if (value == nullptr) return std::nullopt;
    if (const auto* number = value->if_int64()) return *number;
    if (const json::string* text = value->if_string()) return parse_number(*text);
    return std::nullopt;
}

json::value parse(std::string_view text, json::error_code& error) {
    json::parse_options options;
    options.allow_invalid_utf8 = true;  // of a C program that copies what it was given
    options.max_depth = 64;
    return json::parse(text, error, {}, options);
}

WorkerError unclear(const std::string& why) { return {.trouble = "its error file " + why}; }

void read_extra(const json::value* extra, WorkerError& error) {
    const json::object* members = extra != nullptr ? extra->if_object() : nullptr;
    if (members == nullptr) return;
    error.traceback = text_of(members->if_contains("py_callstack"));
    error.unix_time_s = time_of(members->if_contains("timestamp"));
}

int error_code_of(const Failure& failure) {
    return failure.signal != 0 ? -failure.signal : failure.exit_code;
}

json::value nested_form(const Failure& failure) {
    const auto seconds = std::to_string(failure.unix_time_ms / 1000);
    json::object inner{{"message", failure.error_message}};
    inner["extraInfo"] = json::object{{"py_callstack", failure.traceback}, {"timestamp", seconds}};
    return json::object{{"message", std::move(inner)}};
}

namespace fs = std::filesystem;

constexpr std::size_t kMaxCounterFile = 256 * 1024;
constexpr std::string_view kKills = "oom_kill";

std::optional<std::int64_t> parse_single(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    return whole_number<std::int64_t>(text);
}

std::optional<std::int64_t> read_counter(const fs::path& file) {
    const auto text = read_small_file(file, kMaxCounterFile);
    return text.has_value() ? parse_counter(*text, kKills) : std::nullopt;
}

std::optional<std::int64_t> read_number(const fs::path& file) {
    const auto text = read_small_file(file, kMaxCounterFile);
    return text.has_value() ? parse_single(*text) : std::nullopt;
}

std::optional<std::int64_t> read_cgroup_kills(const fs::path& folder) {
    if (folder.empty()) return std::nullopt;
    return read_counter(folder / "memory.events");
}

// Returns how often the counter moved; nothing if it is not known at both times, or went back and so is no
// counter.
std::optional<std::int64_t> kills_between(std::optional<std::int64_t> before,
                                          std::optional<std::int64_t> after) {
    if (!before || !after || *after < *before) return std::nullopt;
    return *after - *before;
}

std::string memory_text(const OomCounters& after) {
    std::string text;
    if (after.worker_limit) text += "limit " + size_text(static_cast<std::uint64_t>(*after.worker_limit));
    if (after.worker_peak)
        text +=
            (text.empty() ? "peak " : ", peak ") + size_text(static_cast<std::uint64_t>(*after.worker_peak));
    return text.empty() ? text : " (" + text + ")";
}

std::string processes(std::int64_t count) {
    return count == 1 ? "one process" : fmt::format("{} processes", count);
}

std::string perhaps(std::int64_t kills, std::string_view where) {
    return fmt::format(
        "perhaps the kernel's OOM killer: since the worker started it killed {} {}, which one "
        "could not be told",
        processes(kills), where);
}

constexpr std::string_view kNotTheKernel = "not the kernel's OOM killer: somebody else sent SIGKILL; ";

constexpr std::string_view kSharedMemoryFull =
    "shared memory has run out, see 'df -h /dev/shm': docker run --shm-size=8g (or --ipc=host); in "
    "Kubernetes an emptyDir of medium Memory at /dev/shm; under Slurm more --mem, which /dev/shm counts "
    "towards";
// Its text depends on what /dev/shm holds.
constexpr std::string_view kBusError = "bus error";
constexpr std::string_view kLockedMemory =
    "memory cannot be locked for RDMA, see 'ulimit -l': docker run --ulimit memlock=-1; under Slurm "
    "PropagateResourceLimitsExcept=MEMLOCK";
constexpr std::string_view kNoInterface =
    "NCCL found no network interface that it may use: name one by NCCL_SOCKET_IFNAME (see 'ip addr')";
constexpr std::string_view kWrongDevice =
    "by --gpu-bind single a worker sees its own device only: use index $DDPRUN_DEVICE, not LOCAL_RANK, or "
    "run with --gpu-bind all";
constexpr std::string_view kBeyondDevices =
    "this node has fewer GPUs than workers: $DDPRUN_DEVICE is the index of the one that a worker shares, LOCAL_RANK is "
    "beyond them";
constexpr std::string_view kMachinesFiles =
    "the machine has no more open files, for all of its users, see 'sysctl fs.file-nr fs.file-max'";
constexpr std::string_view kOpenFiles =
    "too many files are open, see 'ulimit -n': raise it, or docker run --ulimit nofile=1048576";
// Shared memory counts as full if a thirty-second part is free or less: the worker may have wanted more than
// that.
constexpr std::int64_t kNearlyFull = 32;
constexpr std::string_view kAskNccl = "NCCL says more with NCCL_DEBUG=WARN in the environment";

// The first entry whose texts are all in one line of the failure's words counts, so the more special ones
// come first. Each word is used in other places, too: so a text is what one program says of one thing, with
// the fact that makes the hint true.
struct Known {
    std::array<std::string_view, 2> texts;
    std::string_view hint;
    bool HintFacts::*holds = nullptr;  // what must be so, besides
};

constexpr Known kKnown[] = {
    {{"No space left on device", "/dev/shm"}, kSharedMemoryFull},
    {{"Error while creating shared memory segment", ""}, kSharedMemoryFull},
    {{"unhandled system error", "shm"}, kSharedMemoryFull},
    {{"unhandled system error", "shared memory"}, kSharedMemoryFull},
    {{"by signal: Bus error", ""}, kBusError},
    {{"Bus error (core dumped)", ""}, kBusError},
    {{"Fatal Python error: Bus error", ""}, kBusError},
    {{"workers are out of shared memory", ""}, kSharedMemoryFull},
    {{"Cannot allocate memory", "ibv_"}, kLockedMemory, &HintFacts::locks_memory_to_a_limit},
    {{"no socket interface found", ""}, kNoInterface},
    {{"invalid device ordinal", ""}, kWrongDevice, &HintFacts::sees_one_gpu},
    {{"invalid device ordinal", ""}, kBeyondDevices, &HintFacts::is_beyond_gpus},
    {{"Too many open files in system", ""}, kMachinesFiles},
    {{"Too many open files", ""}, kOpenFiles},
    {{"ncclSystemError", ""}, kAskNccl, &HintFacts::nccl_is_quiet},
    {{"unhandled system error", ""}, kAskNccl, &HintFacts::nccl_is_quiet},
    {{"unhandled cuda error", ""}, kAskNccl, &HintFacts::nccl_is_quiet},
};

// Returns the first line that has all of the texts in it; empty: none has.
std::string_view line_with(const Failure& failure, const std::array<std::string_view, 2>& texts) {
    std::vector<const std::string*> all = {&failure.error_message, &failure.traceback};
    for (const std::string& line : failure.last_lines) all.push_back(&line);
    for (const std::string* words : all) {
        for (const std::string_view line : lines_of(*words)) {
            if (line.find(texts[0]) != line.npos && line.find(texts[1]) != line.npos) return line;
        }
    }
    return {};
}

bool says(const Failure& failure, const std::array<std::string_view, 2>& texts) {
    return !line_with(failure, texts).empty();
}

// Our package for Python says there itself what is to be done.
// A traceback shows the line that raises it as well, with an f-string's gaps.
constexpr std::string_view kOurs = "RuntimeError: ddprun: ";
constexpr std::string_view kNoExtension = "RuntimeError: ddprun: there is no extension for torch";

std::string extension_hint(const Failure& failure) {
    const std::string_view line = line_with(failure, {kNoExtension, ""});
    return line.empty() ? "" : bounded(line.substr(line.find(kNoExtension) + kOurs.size()));
}

// A bus error means that a page could not be had: the mapped file ends before it, or there is no memory for
// it.
std::string bus_error_hint(const std::optional<Room>& shared_memory) {
    std::string room;
    if (shared_memory) {
        room = fmt::format("{} of {} of /dev/shm are free now",
                           size_text(static_cast<std::uint64_t>(shared_memory->free)),
                           size_text(static_cast<std::uint64_t>(shared_memory->size)));
        if (shared_memory->free <= shared_memory->size / kNearlyFull)
            return fmt::format("{}: {}", room, kSharedMemoryFull);
        room = " (" + room + ")";
    }
    return fmt::format(
        "perhaps a file that was mapped became shorter, or shared memory ran out{}; against the "
        "latter docker run --shm-size=8g (or --ipc=host), in Kubernetes an emptyDir of medium "
        "Memory at /dev/shm, under Slurm more --mem",
        room);
}

}  // namespace

WorkerError parse_error_file(std::string_view text) {
    json::error_code trouble;
    const json::value root = parse(text, trouble);
    const json::object* members = trouble ? nullptr : root.if_object();
    const json::value* message = members != nullptr ? members->if_contains("message") : nullptr;
    if (message == nullptr) {
        return unclear(fmt::format("{}; it begins with: {}",
                                   trouble ? "is no JSON" : "has no member 'message'",
                                   harmless_line(text.substr(0, text.find('\n')), kBeginningShown)));
    }
    WorkerError error;
    error.file = text;
    if (const json::object* inner = message->if_object()) {
        error.message = text_of(inner->if_contains("message"));
        read_extra(inner->if_contains("extraInfo"), error);
    } else {
        error.message = text_of(message);
        error.unix_time_s = time_of(members->if_contains("timestamp"));
    }
    return error;
}

std::optional<WorkerError> read_error_file(const std::filesystem::path& path) {
    const auto text = read_small_file(path, kMaxErrorFile);
    if (text.has_error()) {
        if (text.error() == make_error_code(Errc::limit_exceeded))
            return unclear(fmt::format("is larger than {} bytes", kMaxErrorFile));
        if (text.error().value() == ENOENT) return std::nullopt;
        return unclear("cannot be read: " + text.error().message());
    }
    if (text->find_first_not_of(" \t\r\n") == std::string::npos) return std::nullopt;
    return parse_error_file(*text);
}

std::optional<std::string> root_cause_file(const Failure& failure, std::string_view file) {
    if (failure.error_message.empty() && failure.traceback.empty()) return std::nullopt;
    json::error_code trouble;
    json::value root = parse(file, trouble);
    json::value* message = !trouble && root.is_object() ? root.get_object().if_contains("message") : nullptr;
    if (message == nullptr) {
        root = nested_form(failure);
        message = root.get_object().if_contains("message");
    }
    if (json::object* inner = message->if_object()) (*inner)["errorCode"] = error_code_of(failure);
    return valid_utf8(json::serialize(root));
}

std::optional<std::string> write_root_cause(const std::filesystem::path& own_error_file,
                                            const Failure& failure, std::string_view file) {
    const auto text = root_cause_file(failure, file);
    const auto error = text ? replace_file(own_error_file, *text) : boost::system::error_code();
    if (!error) return std::nullopt;
    return fmt::format("cannot write TORCHELASTIC_ERROR_FILE '{}': {}", own_error_file.string(),
                       error.message());
}

OomCounters read_oom_counters(const OomSources& sources) {
    OomCounters counters;
    counters.worker_kills = read_cgroup_kills(sources.worker_cgroup);
    counters.job_kills = read_cgroup_kills(sources.job_cgroup);
    counters.machine_kills = read_counter(sources.vmstat);
    if (!sources.worker_cgroup.empty()) {
        counters.worker_limit = read_number(sources.worker_cgroup / "memory.max");
        counters.worker_peak = read_number(sources.worker_cgroup / "memory.peak");
    }
    return counters;
}

std::string explain_kill(const OomCounters& before, const OomCounters& after) {
    if (auto kills = kills_between(before.worker_kills, after.worker_kills)) {
        if (*kills == 0)
            return fmt::format("{}its cgroup counts no OOM kill{}", kNotTheKernel, memory_text(after));
        return fmt::format("the kernel's OOM killer: it killed {} of this worker's own cgroup{}",
                           processes(*kills), memory_text(after));
    }
    const auto job = kills_between(before.job_kills, after.job_kills);
    const auto machine = kills_between(before.machine_kills, after.machine_kills);
    if (job == 0)
        return fmt::format("{}the job's cgroup counts no OOM kill since the worker started", kNotTheKernel);
    if (job) return perhaps(*job, "in the job's cgroup");
    if (machine == 0)
        return fmt::format("{}the kernel counts no OOM kill on this node since the worker started",
                           kNotTheKernel);
    if (machine) return perhaps(*machine, "on this node");
    return "whether the kernel's OOM killer sent SIGKILL could not be told: its counters cannot be read here";
}

std::optional<std::int64_t> parse_counter(std::string_view text, std::string_view name) {
    for (const std::string_view line : lines_of(text)) {
        const auto blank = line.find(' ');
        if (blank != std::string_view::npos && line.substr(0, blank) == name)
            return parse_single(line.substr(blank + 1));
    }
    return std::nullopt;
}

std::optional<Room> shared_memory_room() {
    struct statvfs info {};
    if (::statvfs("/dev/shm", &info) != 0 || info.f_blocks == 0) return std::nullopt;
    const auto block = static_cast<std::int64_t>(info.f_frsize);
    return Room{static_cast<std::int64_t>(info.f_blocks) * block,
                static_cast<std::int64_t>(info.f_bavail) * block};
}

std::string failure_hint(const Failure& failure, const HintFacts& facts) {
    if (failure.kind != Failure::Kind::worker_failed) return {};
    if (std::string hint = extension_hint(failure); !hint.empty()) return hint;
    for (const Known& known : kKnown) {
        if (says(failure, known.texts) && (known.holds == nullptr || facts.*known.holds))
            return known.hint == kBusError ? bus_error_hint(facts.shared_memory) : std::string(known.hint);
    }
    if (!facts.interpreter.empty() && says(failure, {"ModuleNotFoundError", ""}))
        return "the interpreter is " + facts.interpreter;
    return failure.signal == SIGBUS ? bus_error_hint(facts.shared_memory) : std::string();
}

}  // namespace launch
}  // namespace ddprun
