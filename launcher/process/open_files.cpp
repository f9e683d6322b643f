#include "launcher/process/open_files.hpp"

#include <sys/resource.h>

namespace ddprun {

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

}  // namespace ddprun
