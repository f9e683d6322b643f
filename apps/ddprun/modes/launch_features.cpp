#include "apps/ddprun/modes/launch_features.hpp"

#include <utility>
#include <variant>

#include "apps/cli/option_values.hpp"
#include "launcher/features/health.hpp"

namespace ddprun::inline app {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::optional<std::string> value_in(const Environment& environment, const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

LaunchFeatures::LaunchFeatures(const CommandLine& line, const PathFacts& known,
                               const Environment& environment, SteadyClock::time_point start,
                               LauncherLog& log)
    : start_(start), options_read_(SteadyClock::now()), log_(log) {
    const auto port = parse_health_port(value_in(environment, kHealthPortVariable));
    if (const auto* wrong = std::get_if<std::string>(&port)) throw UsageError(*wrong);
    health_port_ = std::get<0>(port);
    if (line.events.empty() || line.dry_run) return;
    auto opened = open_appended_file("--events", filled_path(line.events, known));
    if (const auto* wrong = std::get_if<std::string>(&opened)) throw UsageError(*wrong);
    event_log_ = std::get<AppendedFile>(std::move(opened));
}

void LaunchFeatures::launch_known(const LaunchOptions& options, RdzvBackend backend) {
    FeatureInputs inputs{.options = options,
                         .log = log_,
                         .rdzv_backend = backend_name(backend),
                         .start = start_,
                         .options_read = options_read_,
                         .health_port = health_port_,
                         .event_log = std::exchange(event_log_, std::nullopt)};
    features_ = make_features(inputs);
}

std::vector<Feature*> LaunchFeatures::all() const {
    std::vector<Feature*> features;
    for (const auto& feature : features_) features.push_back(feature.get());
    return features;
}

void LaunchFeatures::fails(int exit_code, std::string_view reason) {
    for (const auto& feature : features_) feature->launch_failed(exit_code, reason);
}

void LaunchFeatures::go_on_elsewhere() {
    for (const auto& feature : features_) feature->goes_on_elsewhere();
}

}  // namespace ddprun::inline app
