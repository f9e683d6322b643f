#include "launcher/process/open_files.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include <cerrno>

namespace ddprun::inline launch {
namespace {

// The launcher itself needs so many: loops, sockets, terminals, files, and those that a restart needs for a moment.
constexpr std::size_t kOwnDescriptors = 64;
// A worker has two streams, and a file for each.
constexpr std::size_t kDescriptorsPerWorker = 4;

}  // namespace

std::size_t least_descriptors(std::size_t workers) noexcept {
    return kOwnDescriptors + kDescriptorsPerWorker * workers;
}

std::size_t launcher_descriptors(std::size_t workers) noexcept {
    return least_descriptors(workers) + 2 * static_cast<std::size_t>(kStartsAtOnce);
}

std::string open_files_remedy(int error_number) {
    rlimit limit{};
    if (error_number != EMFILE || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
    return fmt::format(" (this process may have {}, ulimit -n)", limit.rlim_cur);
}

std::uint64_t raise_open_files() noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return 0;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? before : 0;
}

void restore_open_files(std::uint64_t soft_limit) noexcept {
    rlimit limit{};
    if (soft_limit == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = soft_limit;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace ddprun::inline launch
