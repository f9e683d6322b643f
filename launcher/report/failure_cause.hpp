// explain_kill, failure_hint and read_error_file find the cause behind a failure: what has killed a worker,
// the hint of the report, and the worker's error file. Pure but for functions that read or write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/job/failure.hpp"

namespace ddprun {
inline namespace launch {

// read_error_file reads an error file: what a worker writes into $TORCHELASTIC_ERROR_FILE before it ends
// (PyTorch's @record does). write_root_cause passes one on to the program that started the launcher. Parsing
// and composing are pure; reading and writing are thin.
//
// Two forms are understood:
//   {"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback ...", "timestamp":
//   "1700000000"}}}
//   {"message": "x", "timestamp": 1700000000}
// with timestamps in seconds, as a number or as text. Nothing here throws, whatever a worker wrote.

inline constexpr std::size_t kMaxErrorFile = 1024 * 1024;

// A WorkerError is what an error file says. Texts are valid UTF-8 and fit a control message (cut_middle).
struct WorkerError {
    std::string message;
    std::string traceback;
    std::optional<std::int64_t> unix_time_s;
    std::string file;     // the whole file as it is, empty if it could not be understood
    std::string trouble;  // one sentence: why the file could not be read or understood; else empty

    bool operator==(const WorkerError&) const = default;
};

// Reads the text of an error file. For a text that cannot be understood, `trouble` shows how it begins.
WorkerError parse_error_file(std::string_view text);

// Returns nothing if the worker wrote none: there is no file, or an empty one. A file that cannot be read, or
// is over kMaxErrorFile, is trouble.
std::optional<WorkerError> read_error_file(const std::filesystem::path& path);

// Returns what torchrun would write into its own error file: the first failing worker's `file`. The nested
// form's inner object gets the exit code, as "errorCode" (minus the signal's number where a signal ended the
// worker). The flat form is passed on as it is. Without `file` (the worker ran on another node) the nested
// form is made of `failure`. Nothing if the worker wrote no error file, as with torchrun.
std::optional<std::string> root_cause_file(const Failure& failure, std::string_view file);

// Writes root_cause_file() to the launcher's own $TORCHELASTIC_ERROR_FILE, in place of what is there.
// Returns, if that fails, one line that says why.
std::optional<std::string> write_root_cause(const std::filesystem::path& own_error_file,
                                            const Failure& failure, std::string_view file);

// explain_kill tells whether a SIGKILL that ddprun has not sent came from the kernel's OOM killer.
//
// The kernel counts its OOM kills before it sends the signal: for the whole machine in /proc/vmstat
// (oom_kill), and for every cgroup v2, those below it included, in memory.events (oom_kill). If a counter
// stood still, the signal came from elsewhere. If a counter moved, a process of its scope was killed; only
// where the scope is the worker's own is it known which. More than that is never claimed. (The counters of
// cgroup v1 leave out what is below.)

// OomSources says where the counters are. A folder that is not known is left empty.
struct OomSources {
    std::filesystem::path worker_cgroup;  // holds this worker and its descendants only
    std::filesystem::path job_cgroup;     // holds all workers, and perhaps more: own_cgroup_folder() does
    std::filesystem::path vmstat = "/proc/vmstat";
};

// OomCounters are the counters at one moment; nothing where one cannot be read.
struct OomCounters {
    std::optional<std::int64_t> worker_kills;
    std::optional<std::int64_t> job_kills;
    std::optional<std::int64_t> machine_kills;
    std::optional<std::int64_t> worker_limit;  // memory.max in bytes, nothing without a limit
    std::optional<std::int64_t> worker_peak;   // memory.peak in bytes

    bool operator==(const OomCounters&) const = default;
};

// Reads a few small files. Called right before a worker is started and once it has ended by SIGKILL, before
// its cgroup is removed.
OomCounters read_oom_counters(const OomSources& sources);

// Makes one sentence for Failure::hint.
std::string explain_kill(const OomCounters& before, const OomCounters& after);

// Reads the value of `name` in lines "name value", as memory.events and /proc/vmstat have them.
std::optional<std::int64_t> parse_counter(std::string_view text, std::string_view name);

// Room: how many bytes a file system of limited size holds.
struct Room {
    std::int64_t size = 0;
    std::int64_t free = 0;
};

// Returns the room of /dev/shm now; nothing where there is none, or none with a limit.
std::optional<Room> shared_memory_room();

// HintFacts: what a hint may go by besides the failure itself.
struct HintFacts {
    std::string interpreter;    // LaunchOptions::interpreter; a missing module is often missing there
    bool sees_one_gpu = false;  // LOCAL_RANK counts several GPUs, of which --gpu-bind shows the worker one
    // shared_memory is looked at when the worker has ended. Memory that only the worker had is free again by
    // then, so free room does not prove that there was some before.
    std::optional<Room> shared_memory;
    bool is_beyond_gpus = false;  // the local rank is beyond its node's GPUs, which workers share
    bool nccl_is_quiet = true;    // NCCL_DEBUG is not set, so NCCL has not said more
    bool locks_memory_to_a_limit = true;
};

// Makes one line for Failure::hint: what a common end or message means, and what to do about it. The hint
// goes by the failure's signal, error message, traceback and last lines; empty if none of them is known.
std::string failure_hint(const Failure& failure, const HintFacts& facts);

}  // namespace launch
}  // namespace ddprun
