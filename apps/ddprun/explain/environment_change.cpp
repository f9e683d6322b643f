#include "apps/ddprun/explain/environment_change.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "launcher/agent/worker_placement.hpp"
#include "launcher/features/local_cache.hpp"
#include "launcher/features/watchdog.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/plan/carrier_interface.hpp"
#include "launcher/secret_name.hpp"
#include "rendezvous/control/agent_message.hpp"
#include "rendezvous/worker/life_table.hpp"

namespace ddprun::inline app {
namespace {

constexpr const char* kWhenMet = "known when the nodes have met";
constexpr const char* kAtStart = "made at the start";

std::string port_text(const LaunchOptions& options) {
    return fmt::format("{}, or the next of {} ports that is free", options.master.port, options.master_ports);
}

// What only several nodes together know.
void add_of_nodes(const LaunchOptions& options, Environment& later) {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE"})
        later[name] = kWhenMet;
    if (options.own_address.address.empty()) later["DDPRUN_NODE_ADDR"] = kWhenMet;
    for (const char* name : kInterfaceVariables) {
        if (options.own_address.address.empty() && !options.environment.contains(name))
            later[name] = "the interface that reaches node 0, unless that is loopback";
    }
    later[kMeshKeyVariable] = "a key of the round, where the job has a secret";
    if (options.master_ports > 1) later["MASTER_PORT"] = port_text(options);
    if (!options.etcd) return;
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "DDPRUN_MASTER_ADDR"})
        later[name] = "known when the host is elected";
}

Environment known_later(const LaunchOptions& options) {
    Environment later{
        {"DDPRUN_RUN_ID", kAtStart}, {kLifeVariable, kAtStart}, {"DDPRUN_START_TIME", "when the job starts"}};
    if (options.output.files) later["TORCHELASTIC_ERROR_FILE"] = "a file in the log folder";
    if (options.nnodes > 1) {
        add_of_nodes(options, later);
        return later;
    }
    later[kMeshKeyVariable] = "a key of the round";
    if (options.master.port == 0)
        later["MASTER_PORT"] =
            options.port_range ? "a free port of " + to_string(*options.port_range) : "a free port";
    return later;
}

std::string timer_place_text(const std::string& chosen) {
    if (chosen.empty()) return "a pipe made at the start";
    return fmt::format("{}, or a new pipe where another launcher reads that one",
                       harmless_line(std::filesystem::absolute(chosen).string()));
}

// What the node holds ready, unless the worker has it of the user.
void add_of_station(const LaunchOptions& options, const Environment& worker, Environment& later) {
    if (options.timer_place) later[kTimerFileVariable] = timer_place_text(*options.timer_place);
    if (!options.local_cache) return;
    for (const auto& [name, unused] : cache_variables({})) {
        if (!worker.contains(name)) later[name] = "a folder made at the start";
    }
}

// Of the first round. What several nodes decide is of no account.
RoundReady first_round(const LaunchOptions& options) {
    RoundReady round;
    const int workers = static_cast<int>(options.workers.size());
    round.group_world_size = options.nnodes;
    round.world_size = round.role_world_size = workers;
    round.max_restarts = options.restarts.max_restarts;
    return round;
}

bool is_before(const EnvironmentChange& one, const EnvironmentChange& other) { return one.name < other.name; }

}  // namespace

std::vector<EnvironmentChange> changes_between(const Environment& inherited, const Environment& environment) {
    std::vector<EnvironmentChange> changes;
    for (const auto& [name, value] : environment) {
        const std::string* old = find_variable(inherited, name);
        if (old == nullptr || *old != value) changes.push_back({name, value, {}});
    }
    for (const auto& [name, value] : inherited) {
        if (!environment.contains(name)) changes.push_back({name, std::nullopt, {}});
    }
    std::sort(changes.begin(), changes.end(), is_before);
    return changes;
}

std::vector<EnvironmentChange> changes_of_worker(LaunchOptions options, const Environment& inherited,
                                                 int local_rank, const std::string& host) {
    const bool is_alone = options.nnodes == 1;
    const std::string address = is_alone ? loopback_of(options.master.host) : options.own_address.address;
    if (!is_alone) name_interface(options.environment, options.own_address.interface);
    WorkerStation station;
    station.host = host;
    station.address = address;
    const WorkerSpec spec = place_worker(options, first_round(options), local_rank, station, {});
    auto changes = changes_between(inherited, spec.environment);
    Environment later = known_later(options);
    add_of_station(options, spec.environment, later);
    std::erase_if(changes, [&later](const EnvironmentChange& change) { return later.contains(change.name); });
    for (const auto& [name, when] : later) changes.push_back({name, std::nullopt, when});
    std::sort(changes.begin(), changes.end(), is_before);
    return changes;
}

std::vector<EnvironmentChange> take_common(std::vector<std::vector<EnvironmentChange>*> lists) {
    std::vector<EnvironmentChange> common;
    if (lists.empty()) return common;
    for (const EnvironmentChange& change : *lists.front()) {
        const bool is_everywhere = std::all_of(lists.begin(), lists.end(), [&change](const auto* list) {
            return std::find(list->begin(), list->end(), change) != list->end();
        });
        if (is_everywhere) common.push_back(change);
    }
    for (auto* list : lists) {
        std::erase_if(*list, [&common](const EnvironmentChange& change) {
            return std::find(common.begin(), common.end(), change) != common.end();
        });
    }
    return common;
}

std::string shown_value(const EnvironmentChange& change) {
    if (is_secret_name(change.name)) return "(not shown)";
    return change.value.value_or("");
}

std::string to_text(const EnvironmentChange& change) {
    const std::string name = harmless_line(change.name);
    if (change.value) return fmt::format("{}={}", name, harmless_line(shown_value(change)));
    return change.later.empty() ? name + " is taken out" : fmt::format("{}: {}", name, change.later);
}

}  // namespace ddprun::inline app
