#include "launcher/start/echo_filter.hpp"

#include "launcher/launcher_mark.hpp"

namespace ddprun::inline launch {

std::string EchoFilter::fresh(int node, std::string_view text, std::string_view host) {
    std::string kept;
    while (!text.empty()) {
        const auto newline = text.find('\n');
        std::string_view line = text.substr(0, newline == text.npos ? newline : newline + 1);
        text.remove_prefix(line.size());
        if (line.starts_with(kLauncherMark)) {
            if (first_.size() >= kMaxEchoes) first_.clear();
            if (first_.try_emplace(std::string(line), node).first->second != node) continue;
            // One that is indented belongs to that before it.
            const std::string_view said = line.substr(kLauncherMark.size());
            if (!host.empty() && !said.starts_with(' ')) {
                kept.append(kLauncherMark).append(host).append(": ");
                line = said;
            }
        }
        kept += line;
    }
    return kept;
}

}  // namespace ddprun::inline launch
