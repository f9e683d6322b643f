#include "rendezvous/server/connection_limit.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace ddprun::inline job {
namespace {

std::size_t open_files_allowed() {
    rlimit limit{};
    const bool is_known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
    return is_known ? static_cast<std::size_t>(limit.rlim_cur) : std::numeric_limits<std::size_t>::max();
}

}  // namespace

ConnectionLimit::ConnectionLimit(std::size_t spared) : ConnectionLimit(open_files_allowed(), spared) {}

ConnectionLimit::ConnectionLimit(std::size_t open_files, std::size_t spared)
    : open_files_(open_files),
      most_(std::clamp(open_files - std::min(open_files, spared), kLeastConnections, kMaxConnections)) {}

std::optional<std::string> ConnectionLimit::tell_full() {
    if (std::exchange(is_told_, true)) return std::nullopt;
    const std::string start = fmt::format("the job's port holds {} connections and takes no more", most_);
    if (most_ == kMaxConnections) return start;
    return fmt::format(
        "{}: the limit of {} open files leaves no room beside the workers; raise it (ulimit -n)", start,
        open_files_);
}

}  // namespace ddprun::inline job
