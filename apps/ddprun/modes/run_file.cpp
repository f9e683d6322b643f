#include "apps/ddprun/modes/run_file.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <variant>

#include "launcher/jobs/run_record.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/system/machine.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTooLong = "the command line that has started all hosts is too long to be passed on";

RunRecord own_record(const RunStart& start) {
    RunRecord record;
    record.program = fs::read_symlink("/proc/self/exe").string();
    record.called = start.called;
    record.words = start.words;
    record.directory = fs::current_path().string();
    record.environment = deciding_variables(current_environment());
    record.version = DDPRUN_VERSION;
    record.host = host_name();
    record.start_unix_ms = unix_time_now_ms();
    return record;
}

void add_outcome(const LaunchOptions& options, RunRecord& record) {
    record.run_id = options.run_id;
    record.nnodes = options.nnodes;
    record.workers = static_cast<int>(options.workers.size());
    record.master_addr = options.master.host;
    record.master_port = options.master.port;
}

// Or why there is none. An agent's own words would start that agent alone.
std::variant<RunRecord, std::string> record_of(const LaunchOptions& options, const RunStart& start) try {
    auto record = start.record ? parse_run_record(*start.record) : own_record(start);
    if (!record) return kTooLong;
    add_outcome(options, *record);
    return *std::move(record);
} catch (const fs::filesystem_error& error) {
    return error.what();
}

// Why not; empty: it is written.
std::string trouble_with(const fs::path& path, RunRecord record, const RunFolder& folder) {
    record.job_id = folder.job_id;
    record.node_rank = folder.node_rank;
    const auto error = replace_file(path, to_json(record));
    return error ? error.message() : "";
}

}  // namespace

std::string run_record_of(const RunStart& start) {
    try {
        return to_json(own_record(start));
    } catch (const fs::filesystem_error&) {
        return "";  // The agents that would write it say so.
    }
}

RunFolderWork run_file_work(const LaunchOptions& options, const RunStart& start) {
    if (!options.output.files || options.output.log_dir.empty()) return {};
    return [made = record_of(options, start)](const RunFolder& folder) -> std::optional<std::string> {
        const fs::path path = fs::path(folder.path) / std::string(kRunFile);
        const auto* record = std::get_if<RunRecord>(&made);
        const std::string trouble =
            record != nullptr ? trouble_with(path, *record, folder) : std::get<std::string>(made);
        if (trouble.empty()) return std::nullopt;
        return fmt::format("{} is not written, so ddpctl rerun will not know this run: {}", path.string(),
                           trouble);
    };
}

}  // namespace ddprun::inline app
