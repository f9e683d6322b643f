#include "rendezvous/system/cpus.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "rendezvous/system/small_file.hpp"
#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline base {
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

bool lists_cpu(std::string_view controllers) {
    const auto names = split_at(controllers, ',');
    return std::find(names.begin(), names.end(), "cpu") != names.end();
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
std::optional<double> tightest(const fs::path& root, const std::string& folder, Read read) {
    std::optional<double> least;
    for (fs::path at = fs::path(folder).relative_path();; at = at.parent_path()) {
        if (auto quota = read(root / at)) least = least ? std::min(*least, *quota) : *quota;
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
        if (lists_cpu(controllers)) folders.cpu = line.substr(second + 1);
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

}  // namespace ddprun::inline base
