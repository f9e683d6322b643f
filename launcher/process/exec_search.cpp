#include "launcher/process/exec_search.hpp"

#include <string_view>

namespace ddprun {
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

}  // namespace ddprun
