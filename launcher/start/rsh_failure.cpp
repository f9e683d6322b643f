#include "launcher/start/rsh_failure.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "launcher/harmless_text.hpp"

namespace ddprun::inline launch {
namespace {

// ssh's, for all that goes wrong before there is a shell.
constexpr int kSshFailed = 255;

struct KnownCause {
    std::string_view words;
    std::string_view remedy;
};
// Trying again does not help there.
constexpr std::array<KnownCause, 4> kKnownCauses{{
    {"Permission denied",
     "ssh is not let ask for a password (BatchMode); set up a key, so that `ssh HOST true` works"},
    {"Host key verification failed",
     "ssh is not let ask whether to trust a new host (BatchMode); connect to it once by hand, or see "
     "ssh-keyscan"},
    {"Unable to create step",
     "a node may have other GPUs than its even share of the job's; ask for --gpus-per-node, or start ddprun "
     "by srun "
     "--ntasks-per-node=1"},
    {"Too many authentication failures", "name one key for this host in ~/.ssh/config (IdentitiesOnly)"},
}};

const KnownCause* known_cause(std::string_view line) {
    const auto* found =
        std::find_if(kKnownCauses.begin(), kKnownCauses.end(),
                     [line](const KnownCause& cause) { return line.find(cause.words) != line.npos; });
    return found == kKnownCauses.end() ? nullptr : found;
}

std::string end_text(const ExitStatus& status) {
    if (const auto* exited = std::get_if<Exited>(&status)) return fmt::format("exit {}", exited->code);
    return to_string(status);
}

}  // namespace

std::string rsh_failure_text(std::string_view target, std::string_view command, const RshEnd& end) {
    std::string text =
        fmt::format("{}: {} {}", target, command.substr(command.rfind('/') + 1), end_text(end.status));
    const std::string line = harmless_output_line(end.last_line);
    if (!line.empty()) text += ": " + line;
    if (const KnownCause* cause = known_cause(line)) text += fmt::format(" ({})", cause->remedy);
    return text;
}

bool is_worth_another(const RshEnd& end) {
    const auto* exited = std::get_if<Exited>(&end.status);
    return exited != nullptr && exited->code == kSshFailed && known_cause(end.last_line) == nullptr;
}

std::chrono::milliseconds pause_before_next(int failed, double chance) {
    const auto least = kFirstConnectPause * (1 << std::clamp(failed - 1, 0, kMaxConnects));
    return least +
           std::chrono::duration_cast<std::chrono::milliseconds>(least * std::clamp(chance, 0.0, 1.0));
}

}  // namespace ddprun::inline launch
