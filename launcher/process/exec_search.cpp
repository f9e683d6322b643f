#include "launcher/process/exec_search.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace ddprun::inline launch {
namespace {

// What glibc takes when PATH is unset.
constexpr std::string_view kDefaultPath = "/bin:/usr/bin";

}  // namespace

std::vector<std::string> exec_candidates(const std::string& name, const std::optional<std::string>& path) {
    if (name.empty()) return {};
    if (name.find('/') != std::string::npos) return {name};
    std::vector<std::string> candidates;
    std::string_view rest = path ? std::string_view(*path) : kDefaultPath;
    for (;;) {
        const auto colon = rest.find(':');
        const std::string_view directory = rest.substr(0, colon);
        candidates.push_back(directory.empty() ? "./" + name : std::string(directory) + "/" + name);
        if (colon == std::string_view::npos) return candidates;
        rest.remove_prefix(colon + 1);
    }
}

std::string find_executable(const std::string& name, const std::optional<std::string>& path) {
    for (const std::string& candidate : exec_candidates(name, path)) {
        std::error_code ignored;
        if (std::filesystem::is_regular_file(candidate, ignored) && ::access(candidate.c_str(), X_OK) == 0)
            return std::filesystem::absolute(candidate, ignored).lexically_normal().string();
    }
    return {};
}

const std::vector<std::string>& ExecSearch::candidates(const std::string& name,
                                                       const std::optional<std::string>& path) {
    if (!candidates_.empty() && name == name_ && path == path_) return candidates_;
    name_ = name;
    path_ = path;
    candidates_ = exec_candidates(name, path);
    const auto exists = [](const std::string& file) { return ::access(file.c_str(), F_OK) == 0; };
    if (candidates_.size() > 1) std::stable_partition(candidates_.begin(), candidates_.end(), exists);
    return candidates_;
}

}  // namespace ddprun::inline launch
