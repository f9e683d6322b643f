#include "launcher/report/kill_cause.hpp"

#include <fmt/core.h>

#include "launcher/harmless_text.hpp"
#include "rendezvous/system/number_text.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

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

// How often the counter moved; nothing if it is not known at both times, or went back and so is no counter.
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

}  // namespace

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

}  // namespace ddprun::inline launch
