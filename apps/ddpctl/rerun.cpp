#include "apps/ddpctl/rerun.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "apps/cli/option_values.hpp"
#include "apps/cli/print.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/plan/rank_command.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/machine.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxLineShown = 4096;

// Finds the newest of this user's runs that have their folders in this one. Earlier versions have left theirs in this one
// itself.
std::optional<fs::path> newest_in(const fs::path& log_dir) {
    std::vector<fs::path> folders{log_dir};
    std::error_code trouble;
    for (auto at = fs::directory_iterator(log_dir, trouble); at != fs::directory_iterator();
         at.increment(trouble))
        if (!at->is_symlink(trouble)) folders.push_back(at->path());  // `latest` is no run of its own
    std::vector<fs::path> paths;
    std::vector<RunRecord> records;
    for (const fs::path& folder : folders) {
        const fs::path path = folder / std::string(kRunFile);
        if (foreign_owner(path)) continue;
        const auto text = read_small_file(path, kMaxRunFile);
        auto record = text ? parse_run_record(*text) : std::nullopt;
        if (!record) continue;
        paths.push_back(path);
        records.push_back(*std::move(record));
    }
    if (records.empty()) return std::nullopt;
    return paths[newest_run(records, host_name())];
}

// The file, the run's own folder, or that of --log-dir; which run of it that is, is said.
fs::path record_path(const fs::path& named) {
    std::error_code unknown;
    if (!fs::is_directory(named, unknown)) return named;
    const fs::path own = named / std::string(kRunFile);
    const bool has_own = fs::exists(own, unknown);
    const auto newest = newest_in(named);
    if (!newest && !has_own)
        throw UsageError(fmt::format("rerun {}: no run of yours is recorded there", named.string()));
    const fs::path path = newest.value_or(own);
    if (path != own)
        std::fprintf(stderr, "ddpctl: the newest run in %s is %s\n", harmless_line(named.string()).c_str(),
                     harmless_line(path.parent_path().filename().string()).c_str());
    return path;
}

RunRecord read_record(const std::string& named) {
    const fs::path path = record_path(named);
    if (const auto owner = foreign_owner(path))
        throw UsageError(fmt::format("rerun {}: it or its folder belongs to another user (uid {})",
                                     path.string(), *owner));
    const auto text = read_small_file(path, kMaxRunFile);
    if (!text)
        throw UsageError(fmt::format("rerun {}: cannot be read: {}", path.string(), text.error().message()));
    auto record = parse_run_record(*text);
    if (!record)
        throw UsageError(fmt::format("rerun {}: no file that ddprun --log-dir has written", path.string()));
    if (!record->is_exact)
        throw UsageError(
            fmt::format("rerun {}: its command line, folder or variables are no UTF-8, so they are not known "
                        "byte for byte",
                        path.string()));
    return *std::move(record);
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

[[noreturn]] void become(const Rerun& rerun) {
    if (::chdir(rerun.directory.c_str()) != 0)
        throw UsageError(fmt::format("rerun: the folder {} of the run cannot be entered: {}", rerun.directory,
                                     std::strerror(errno)));
    std::vector<std::string> entries;
    for (const auto& [name, value] : rerun.environment) entries.push_back(name + "=" + value);
    ::execve(rerun.program.c_str(), pointers_to(rerun.argv).data(), pointers_to(entries).data());
    fail_errno(errno, fmt::format("rerun: {} cannot be executed", rerun.program));
}

}  // namespace

Rerun rerun_of(const RunRecord& record, const Environment& own) {
    Rerun rerun{.program = record.program,
                .argv = {record.called},
                .directory = record.directory,
                .environment = as_recorded(own, record.environment)};
    rerun.argv.insert(rerun.argv.end(), record.words.begin(), record.words.end());
    std::vector<std::string> changes;
    for (const auto& [name, value] : own) {
        if (!rerun.environment.contains(name)) changes.insert(changes.end(), {"-u", name});
    }
    for (const auto& [name, value] : rerun.environment) {
        const std::string* old = find_variable(own, name);
        if (old == nullptr || *old != value) changes.push_back(name + "=" + value);
    }
    std::vector<std::string> words;
    if (!changes.empty()) words.emplace_back("env");
    words.insert(words.end(), changes.begin(), changes.end());
    words.push_back(record.program);
    words.insert(words.end(), record.words.begin(), record.words.end());
    rerun.line = fmt::format("cd {} && {}", join_shell_words({record.directory}), join_shell_words(words));
    return rerun;
}

int run_again(const RerunCommand& command) {
    const RunRecord record = read_record(command.run);
    const Rerun rerun = rerun_of(record, current_environment());
    if (command.dry_run) {
        print(rerun.line + "\n");
        return 0;
    }
    if (record.version != DDPRUN_VERSION)
        std::fprintf(stderr, "ddpctl: the run was of ddprun %s, this is ddpctl %s\n",
                     harmless_line(record.version).c_str(), DDPRUN_VERSION);
    std::fprintf(stderr, "ddpctl: %s\n", harmless_line(rerun.line, kMaxLineShown).c_str());
    become(rerun);
}

}  // namespace ddprun::inline app
