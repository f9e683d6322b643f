#include "rendezvous/system/memory_limit.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "rendezvous/system/small_file.hpp"
#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline base {
namespace {

constexpr std::string_view kRoot = "/sys/fs/cgroup";
constexpr std::size_t kMaxFileBytes = 64 * 1024;

std::optional<std::string> text_of(const std::string& path) {
    auto text = read_small_file(path, kMaxFileBytes);
    return text ? std::optional(std::move(*text)) : std::nullopt;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    return text;
}

}  // namespace

std::optional<std::size_t> control_group_limit(
    std::string_view own_groups, const std::function<std::optional<std::string>(const std::string&)>& read) {
    std::optional<std::size_t> least;
    const auto learn = [&](const std::string& path) {
        const auto text = read(path);
        // Without a limit version 2 says "max", and version 1 the largest number of pages.
        const auto bytes = text ? whole_number<std::size_t>(trimmed(*text)) : std::nullopt;
        if (bytes && *bytes > 0) least = std::min(least.value_or(*bytes), *bytes);
    };
    for (const std::string_view line : split_at(own_groups, '\n')) {
        // A line is number:controllers:path.
        const std::size_t first = line.find(':');
        const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
        if (second == line.npos) continue;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const bool is_second_version = controllers.empty();
        if (!is_second_version && controllers != "memory") continue;
        const std::string root = std::string(kRoot) + (is_second_version ? "" : "/memory");
        const char* const name = is_second_version ? "/memory.max" : "/memory.limit_in_bytes";
        std::string group(line.substr(second + 1));
        // In a container the path is that of the host, and its own group is mounted as the root.
        for (;;) {
            if (group == "/") group.clear();
            learn(root + group + name);
            if (group.empty()) break;
            group.erase(group.rfind('/') == group.npos ? 0 : group.rfind('/'));
        }
    }
    return least;
}

std::size_t memory_limit() {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page = ::sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) least = static_cast<std::size_t>(pages) * static_cast<std::size_t>(page);
    rlimit space{};
    if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        least = std::min<std::size_t>(least, space.rlim_cur);
    if (const auto groups = text_of("/proc/self/cgroup"))
        least = std::min(least, control_group_limit(*groups, text_of).value_or(least));
    return least;
}

}  // namespace ddprun::inline base
