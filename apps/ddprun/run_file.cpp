#include "apps/ddprun/run_file.hpp"

#include <fmt/core.h>

#include <filesystem>

#include "launcher/agent/job_terms.hpp"
#include "launcher/jobs/deciding_variables.hpp"
#include "launcher/jobs/run_record.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

RunRecord record_of(const LaunchOptions& options, const std::string& called,
                    const std::vector<std::string>& words) {
    RunRecord record;
    record.program = fs::read_symlink("/proc/self/exe").string();
    record.called = called;
    record.words = words;
    record.directory = fs::current_path().string();
    record.environment = deciding_variables(current_environment());
    record.version = DDPRUN_VERSION;
    record.host = host_name();
    record.start_unix_ms = unix_time_now_ms();
    record.run_id = options.run_id;
    record.nnodes = options.nnodes;
    record.node_rank = options.node_rank;
    record.workers = static_cast<int>(options.workers.size());
    record.master_addr = options.master.host;
    record.master_port = options.master.port;
    return record;
}

// Why not; empty: it is written.
std::string trouble_with(const fs::path& path, const LaunchOptions& options, const std::string& called,
                         const std::vector<std::string>& words) {
    const auto old = read_small_file(path, kMaxRunFile);
    const bool is_new = !old && old.error() == boost::system::errc::no_such_file_or_directory;
    if (!is_new && (!old || !parse_run_record(*old))) return "there is something else by that name";
    try {
        fs::create_directories(path.parent_path());
        const auto error = replace_file(path, to_json(record_of(options, called, words)));
        return error ? error.message() : "";
    } catch (const fs::filesystem_error& error) {
        return error.what();
    }
}

}  // namespace

void write_run_file(const LaunchOptions& options, const std::string& called,
                    const std::vector<std::string>& words, const PathFacts& known, LauncherLog& log) {
    const std::string& named = options.output.log_dir;
    if (!options.output.files || named.empty()) return;
    const bool has_signs = fixed_part(named) != named;
    if (has_signs && options.nnodes > 1 && !may_host(options)) return;
    const fs::path path =
        fs::path(filled_path(named, known)) / run_file_name(options.nnodes, options.node_rank, host_name());
    const std::string trouble = trouble_with(path, options, called, words);
    if (!trouble.empty())
        log.warn(fmt::format("{} is not written, so ddpctl rerun will not know this run: {}", path.string(),
                             trouble));
}

}  // namespace ddprun
