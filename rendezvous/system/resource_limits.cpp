#include "rendezvous/system/resource_limits.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace base {

namespace {

namespace fs = std::filesystem;

// A few lines each; /proc/self/cgroup has one for every hierarchy.
constexpr std::size_t kMaxCgroupFile = 64 * 1024;
// A set has 1,024 CPUs; no machine that Linux runs on has more than these.
constexpr std::size_t kMaxSets = 64;

std::optional<std::string> read_cgroup_file(const fs::path& path) {
    auto text = read_small_file(path, kMaxCgroupFile);
    return text.has_value() ? std::optional(std::move(*text)) : std::nullopt;
}

std::optional<long long> parse_quota(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    return whole_number<long long>(text);
}

std::optional<double> ratio(std::optional<long long> quota, std::optional<long long> period) {
    if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
    return static_cast<double>(*quota) / static_cast<double>(*period);
}

bool lists(std::string_view controllers, std::string_view wanted) {
    const auto names = split_at(controllers, ',');
    return std::find(names.begin(), names.end(), wanted) != names.end();
}

std::optional<double> quota_v2(const fs::path& folder) {
    auto text = read_cgroup_file(folder / "cpu.max");
    return text ? parse_cpu_max(*text) : std::nullopt;
}

std::optional<double> quota_v1(const fs::path& folder) {
    auto quota = read_cgroup_file(folder / "cpu.cfs_quota_us");
    auto period = read_cgroup_file(folder / "cpu.cfs_period_us");
    return quota && period ? parse_cfs_quota(*quota, *period) : std::nullopt;
}

// The smallest of what `read` finds in root/folder and in every folder between it and the root.
template <typename Read>
auto tightest(const fs::path& root, const std::string& folder, Read read) {
    decltype(read(root)) least;
    for (fs::path at = fs::path(folder).relative_path();; at = at.parent_path()) {
        if (const auto limit = read(root / at)) least = std::min(least.value_or(*limit), *limit);
        if (at.empty()) return least;
    }
}

}  // namespace

std::optional<double> parse_cpu_max(std::string_view text) {
    const auto space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    return ratio(parse_quota(text.substr(0, space)), parse_quota(text.substr(space + 1)));
}

std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period) {
    return ratio(parse_quota(quota), parse_quota(period));
}

CgroupFolders parse_cgroup_folders(std::string_view text) {
    CgroupFolders folders;
    for (const std::string_view line : split_at(text, '\n')) {
        // hierarchy:controllers:folder, and the folder may hold colons.
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const auto controllers = line.substr(first + 1, second - first - 1);
        if (line.starts_with("0:") && controllers.empty()) folders.unified = line.substr(second + 1);
        if (lists(controllers, "cpu")) folders.cpu = line.substr(second + 1);
        if (lists(controllers, "memory")) folders.memory = line.substr(second + 1);
    }
    return folders;
}

std::optional<double> find_cpu_quota(const fs::path& cgroup_file, const fs::path& cgroup_root) {
    const CgroupFolders folders = parse_cgroup_folders(read_cgroup_file(cgroup_file).value_or(""));
    std::optional<double> least;
    auto take = [&least](std::optional<double> quota) {
        if (quota) least = least ? std::min(*least, *quota) : *quota;
    };
    if (folders.unified) take(tightest(cgroup_root, *folders.unified, quota_v2));
    if (folders.cpu) {
        // The same hierarchy, under whichever of its names the system has mounted it.
        for (const char* name : {"cpu", "cpu,cpuacct"})
            take(tightest(cgroup_root / name, *folders.cpu, quota_v1));
    }
    return least;
}

int online_cpus() { return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

std::vector<int> affinity_cpus() {
    // The kernel refuses sets smaller than its own.
    std::vector<cpu_set_t> set(kMaxSets);
    const std::size_t bytes = set.size() * sizeof(cpu_set_t);
    std::vector<int> cpus;
    if (::sched_getaffinity(0, bytes, set.data()) != 0) {
        cpus.resize(std::max(1U, std::thread::hardware_concurrency()));
        std::iota(cpus.begin(), cpus.end(), 0);
        return cpus;
    }
    const int all = CPU_COUNT_S(bytes, set.data());
    for (int cpu = 0; static_cast<int>(cpus.size()) < all; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, set.data())) cpus.push_back(cpu);
    }
    return cpus;
}

int usable_cpus(int cpus, std::optional<double> quota) {
    double usable = cpus;
    if (quota) usable = std::min(usable, *quota);
    return std::max(1, static_cast<int>(usable));
}

namespace {

using ReadFile = std::function<std::optional<std::string>(const std::string&)>;

// Where there is no limit version 2 says "max", and version 1 the largest number of pages.
std::optional<std::size_t> least_in(const char* root, const std::optional<std::string>& folder,
                                    const char* name, const ReadFile& read) {
    if (!folder) return std::nullopt;
    return tightest(root, *folder, [&](const fs::path& at) -> std::optional<std::size_t> {
        const auto text = read(at / name);
        const auto number = text ? parse_quota(*text) : std::nullopt;
        if (!number || *number <= 0) return std::nullopt;
        return static_cast<std::size_t>(*number);
    });
}

}  // namespace

std::optional<std::size_t> control_group_limit(std::string_view own_groups, const ReadFile& read) {
    const CgroupFolders folders = parse_cgroup_folders(own_groups);
    const auto unified = least_in("/sys/fs/cgroup", folders.unified, "memory.max", read);
    const auto memory = least_in("/sys/fs/cgroup/memory", folders.memory, "memory.limit_in_bytes", read);
    return unified && memory ? std::min(unified, memory) : unified ? unified : memory;
}

std::optional<std::size_t> process_limit() {
    const CgroupFolders folders = parse_cgroup_folders(read_cgroup_file("/proc/self/cgroup").value_or(""));
    return least_in("/sys/fs/cgroup", folders.unified, "pids.max", read_cgroup_file);
}

std::size_t memory_limit() {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page = ::sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) least = static_cast<std::size_t>(pages) * static_cast<std::size_t>(page);
    rlimit space{};
    if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        least = std::min<std::size_t>(least, space.rlim_cur);
    if (const auto groups = read_cgroup_file("/proc/self/cgroup"))
        least = std::min(least, control_group_limit(*groups, read_cgroup_file).value_or(least));
    return least;
}

}  // namespace base
}  // namespace ddprun
