// Who killed a worker that got a SIGKILL not sent by us: the kernel's OOM killer, or somebody else? Pure but
// for read_oom_counters.
//
// The kernel counts its OOM kills before it sends the signal: for the whole machine in /proc/vmstat
// (oom_kill), and for every cgroup v2, those below it included, in memory.events (oom_kill). So a counter
// that stood still tells that it was somebody else, and one that moved tells that a process of its scope was
// killed; it tells which one only where the scope is the worker's own. More than that is never claimed. (The
// counters of cgroup v1 leave out what is below.)
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::inline launch {

// Where the counters are. A folder that is not known is left empty.
struct OomSources {
    std::filesystem::path worker_cgroup;  // holds this worker and its descendants only
    std::filesystem::path job_cgroup;     // holds all workers, and perhaps more: own_cgroup_folder() does
    std::filesystem::path vmstat = "/proc/vmstat";
};

// The counters at one moment; nothing where one cannot be read.
struct OomCounters {
    std::optional<std::int64_t> worker_kills;
    std::optional<std::int64_t> job_kills;
    std::optional<std::int64_t> machine_kills;
    std::optional<std::int64_t> worker_limit;  // memory.max in bytes, nothing without a limit
    std::optional<std::int64_t> worker_peak;   // memory.peak in bytes

    bool operator==(const OomCounters&) const = default;
};

// Some small reads. To be called right before a worker is started and once it has ended by SIGKILL, before
// its cgroup is removed.
OomCounters read_oom_counters(const OomSources& sources);

// One sentence for Failure::hint.
std::string explain_kill(const OomCounters& before, const OomCounters& after);

// The value of `name` in lines "name value", as memory.events and /proc/vmstat have them.
std::optional<std::int64_t> parse_counter(std::string_view text, std::string_view name);

}  // namespace ddprun::inline launch
