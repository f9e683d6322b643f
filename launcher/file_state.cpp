#include "launcher/file_state.hpp"

#include <fmt/core.h>
#include <sys/stat.h>

namespace ddprun {
inline namespace launch {

std::string file_state(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return {};
    return fmt::format("{}:{}:{}.{}", info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

}  // namespace launch
}  // namespace ddprun
