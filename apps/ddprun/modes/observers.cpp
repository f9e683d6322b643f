#include "apps/ddprun/modes/observers.hpp"

#include <unistd.h>

#include <filesystem>
#include <utility>
#include <variant>

#include "apps/cli/option_values.hpp"
#include "launcher/agent/job_terms.hpp"
#include "launcher/health/health_port.hpp"

namespace ddprun::inline app {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::optional<std::string> value_in(const Environment& environment, const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

Observers::Observers(const CommandLine& line, const PathFacts& known, const Environment& environment,
                     SteadyClock::time_point start, LauncherLog& log)
    : start_(start), options_read_(SteadyClock::now()), log_(log) {
    const auto warn = [&log](const std::string& trouble) { log.warn(trouble); };
    const auto port = parse_health_port(value_in(environment, kHealthPortVariable));
    if (const auto* wrong = std::get_if<std::string>(&port)) throw UsageError(*wrong);
    if (const auto& asked = std::get<0>(port)) health_.emplace(*asked, warn);
    if (line.events.empty() || line.dry_run) return;
    auto opened = open_appended_file("--events", filled_path(line.events, known));
    if (const auto* wrong = std::get_if<std::string>(&opened)) throw UsageError(*wrong);
    file_ = std::get<AppendedFile>(std::move(opened));
}

void Observers::launch_known(const LaunchOptions& options, RdzvBackend backend) {
    if (!file_) return;
    events_.emplace(EventOrigin{.run_id = options.run_id,
                                .role = options.role,
                                .host = host_name(),
                                .entry_point = std::filesystem::path(options.entry_name).filename().string(),
                                .rdzv_backend = backend_name(backend),
                                .pid = ::getpid()},
                    *std::exchange(file_, std::nullopt), start_,
                    [&log = log_](const std::string& trouble) { log.warn(trouble); });
    events_->did("options_read", {{"version", DDPRUN_VERSION}, {"nodes", options.nnodes}}, options_read_);
    events_->did("machine_read", {{"workers", options.workers.size()}}, SteadyClock::now());
}

std::vector<AgentWatcher*> Observers::all() {
    std::vector<AgentWatcher*> watchers;
    if (events_) watchers.push_back(&*events_);
    if (health_) watchers.push_back(&*health_);
    return watchers;
}

void Observers::fails(int exit_code, std::string_view reason) {
    if (events_) events_->fails(exit_code, reason);
}

void Observers::forget() {
    if (events_) events_->forget();
}

}  // namespace ddprun::inline app
