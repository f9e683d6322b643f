#include "apps/ddprun/run_file.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <optional>

#include "launcher/agent/job_terms.hpp"
#include "launcher/jobs/deciding_variables.hpp"
#include "launcher/jobs/run_record.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
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
    record.node_rank = options.node_rank;
    record.workers = static_cast<int>(options.workers.size());
    record.master_addr = options.master.host;
    record.master_port = options.master.port;
}

// An agent's own words would start that agent alone.
std::optional<RunRecord> record_of(const LaunchOptions& options, const RunStart& start) {
    auto record = start.record ? parse_run_record(*start.record) : own_record(start);
    if (record) add_outcome(options, *record);
    return record;
}

// Why not; empty: it is written.
std::string trouble_with(const fs::path& path, const LaunchOptions& options, const RunStart& start) {
    const auto old = read_small_file(path, kMaxRunFile);
    const bool is_new = !old && old.error() == boost::system::errc::no_such_file_or_directory;
    if (!is_new && (!old || !parse_run_record(*old))) return "there is something else by that name";
    try {
        const auto record = record_of(options, start);
        if (!record) return kTooLong;
        fs::create_directories(path.parent_path());
        const auto error = replace_file(path, to_json(*record));
        return error ? error.message() : "";
    } catch (const fs::filesystem_error& error) {
        return error.what();
    }
}

}  // namespace

std::string run_record_of(const RunStart& start) {
    try {
        return to_json(own_record(start));
    } catch (const fs::filesystem_error&) {
        return "";  // The agents that would write it say so.
    }
}

void write_run_file(const LaunchOptions& options, const RunStart& start, const PathFacts& known,
                    LauncherLog& log) {
    const std::string& named = options.output.log_dir;
    if (!options.output.files || named.empty()) return;
    const bool has_signs = fixed_part(named) != named;
    if (has_signs && options.nnodes > 1 && !may_host(options)) return;
    const fs::path path =
        fs::path(filled_path(named, known)) / run_file_name(options.nnodes, options.node_rank, host_name());
    const std::string trouble = trouble_with(path, options, start);
    if (!trouble.empty())
        log.warn(fmt::format("{} is not written, so ddpctl rerun will not know this run: {}", path.string(),
                             trouble));
}

}  // namespace ddprun
