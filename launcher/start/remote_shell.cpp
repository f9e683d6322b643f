#include "launcher/start/remote_shell.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "launcher/harmless_text.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kSsh = "ssh";
constexpr std::string_view kSrun = "srun";
constexpr std::string_view kBlaunch = "blaunch";
constexpr std::string_view kQrsh = "qrsh";

// These of Slurm's variables name the job, the cluster and the user to srun; an asterisk stands for all that begin so.
constexpr std::array<std::string_view, 7> kKeptForSrun{
    "SLURM_CONF*", "SLURM_CLUSTER*", "SLURM_WORKING_CLUSTER", "SLURM_JOB_ID", "SLURM_JOBID",
    "SLURM_JWT",   "SLURM_HET_*"};

bool is_kept_for_srun(std::string_view name) {
    if (!name.starts_with("SLURM_") && !name.starts_with("SRUN_")) return true;
    return std::any_of(kKeptForSrun.begin(), kKeptForSrun.end(), [name](std::string_view kept) {
        return kept.ends_with('*') ? name.starts_with(kept.substr(0, kept.size() - 1)) : name == kept;
    });
}

struct ShellPlace {
    std::string_view sign;
    std::string text;
    bool is_filled = false;
};
using ShellPlaces = std::array<ShellPlace, 3>;

std::string filled_word(std::string_view word, ShellPlaces& places) {
    std::string filled;
    while (!word.empty()) {
        std::size_t taken = 1;
        for (ShellPlace& place : places) {
            if (!word.starts_with(place.sign)) continue;
            filled += place.text;
            place.is_filled = true;
            taken = place.sign.size();
        }
        if (taken == 1) filled += word.front();
        word.remove_prefix(taken);
    }
    return filled;
}

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
     "a node may have other GPUs than its even share of the job's; ask for --gpus-per-node, or start ddprun by srun "
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

std::string shell_name(const std::vector<std::string>& command) {
    return command.empty() ? std::string(kSsh) : command.front().substr(command.front().rfind('/') + 1);
}

std::vector<std::string> remote_shell(std::vector<std::string> command) {
    if (command.empty()) command = {std::string(kSsh)};
    const std::string name = shell_name(command);
    // The user's options stand before these and count for ssh; what follows is no option.
    if (name == kSsh)
        command.insert(command.end(),
                       {"-o", "BatchMode=yes", "-o", fmt::format("ConnectTimeout={}", kConnectSeconds), "-o",
                        "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3", "-T", "-x", "--"});
    // Each host's agent has all that the job has there, beside what else the job runs, and binds its workers itself.
    if (name == kSrun)
        command.insert(command.end(),
                       {"--nodes=1", "--ntasks=1", "--overlap", "--mpi=none", "--cpu-bind=none",
                        "--export=ALL", "--quiet", fmt::format("--gpus={}", kGpusPlace),
                        fmt::format("--nodelist={}", kHostPlace), "/bin/sh", "-c", std::string(kLinePlace)});
    if (name == kQrsh && std::find(command.begin(), command.end(), "-inherit") == command.end())
        command.emplace_back("-inherit");
    return command;
}

std::optional<std::string> why_no_remote_shell(const std::vector<std::string>& command) {
    const std::string name = shell_name(command);
    if (name != "pbsdsh" && name != "pbs_tmrsh") return std::nullopt;
    return fmt::format("{} gives what it starts no standard input, by which the job's key comes; take ssh",
                       name);
}

std::vector<std::string> shell_words(const std::vector<std::string>& command, const ShellCall& call) {
    ShellPlaces places{
        {{kHostPlace, call.target}, {kLinePlace, call.line}, {kGpusPlace, std::to_string(call.gpus)}}};
    std::vector<std::string> words;
    for (const std::string& word : command) {
        if (call.gpus > 0 || word.find(kGpusPlace) == std::string::npos)
            words.push_back(filled_word(word, places));
    }
    // A command's own words say how many GPUs, if they do.
    for (const std::size_t needed : {0U, 1U}) {
        if (!places[needed].is_filled) words.push_back(places[needed].text);
    }
    return words;
}

Environment shell_environment(const std::vector<std::string>& command, Environment environment) {
    if (shell_name(command) == kSrun)
        std::erase_if(environment, [](const auto& variable) { return !is_kept_for_srun(variable.first); });
    return environment;
}

bool is_schedulers(const std::vector<std::string>& command) {
    const std::string name = shell_name(command);
    return name == kSrun || name == kBlaunch || name == kQrsh;
}

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
