#include "launcher/agent/worker_placement.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/secure/secret.hpp"

namespace ddprun {
inline namespace launch {
namespace {

WorkerIdentity identity_of(const LaunchOptions& options, const RoundReady& round, int local_rank,
                           const WorkerStation& station) {
    const Endpoint& store = station.store.port != 0 ? station.store : options.master;
    return {.rank = round.base_rank + local_rank,
            .local_rank = options.virtual_local_rank ? 0 : local_rank,
            .world_size = round.world_size,
            .local_world_size = static_cast<int>(options.workers.size()),
            .group_rank = round.group_rank,
            .group_world_size = round.group_world_size,
            .role = options.role,
            .role_rank = round.role_base_rank + local_rank,
            .role_world_size = round.role_world_size,
            .master_addr = store.host,
            .master_port = store.port,
            .host_addr = station.host_addr.empty() ? options.master.host : station.host_addr,
            .node_addr = station.address,
            .mesh_key = station.mesh_key ? hex_of(*station.mesh_key) : std::string(),
            .run_id = options.run_id,
            .job_id = round.job_id,
            .start_unix_s = round.start_unix_s,
            .round = round.round,
            .restart_count = round.restart_count,
            .max_restarts = round.max_restarts,
            .restart_reason = round.restart_reason,
            .life = station.life};
}

void lend_streams(WorkerSpec& spec, const LauncherStreams& launcher) {
    spec.standard_input = spec.standard_output = spec.standard_error = Stdio::inherit;
    if (!launcher.terminal) return;
    spec.takes_terminal = true;
    spec.standard_input = *launcher.terminal;
    if (launcher.output_is_terminal) spec.standard_output = *launcher.terminal;
    if (launcher.error_is_terminal) spec.standard_error = *launcher.terminal;
}

using Complaint = std::optional<std::string>;

// Complains of a flag whose value names a rank that is too high.
struct Bounds {
    int count;
    std::string_view whose;
    std::string_view rank;

    Complaint refuse(std::string_view flag, const std::optional<std::string>& value) const {
        if (!value) return std::nullopt;
        return count == 1 ? fmt::format("{} {}: {} has 1 worker, {} 0", flag, *value, whose, rank)
                          : fmt::format("{} {}: {} has {} workers, {}s 0 to {}", flag, *value, whose, count,
                                        rank, count - 1);
    }

    // Shows as much of the value as is needed to find it again.
    Complaint refuse(std::string_view flag, const RankCommand& command, bool local) const {
        const auto range = command.local == local ? command.ranks.beyond(count) : std::nullopt;
        if (!range) return std::nullopt;
        return refuse(flag, fmt::format("'{}{}:{}'", local ? "local=" : "", *range, command.words.front()));
    }

    // Looks at the commands by local rank, or at the others.
    Complaint refuse(const LaunchOptions& options, bool local) const {
        for (const Wrap& wrap : options.wraps) {
            if (auto wrong = refuse("--wrap", wrap, local)) return wrong;
        }
        for (const RankPlan& one : options.programs) {
            if (auto wrong = refuse("--program", one.where, local)) return wrong;
        }
        return std::nullopt;
    }
};

}  // namespace

const WorkerPlan& plan_of_worker(const LaunchOptions& options, int rank, int local_rank) {
    const auto own = std::find_if(options.programs.begin(), options.programs.end(),
                                  [&](const RankPlan& one) { return one.where.names(rank, local_rank); });
    const auto& workers = own == options.programs.end() ? options.workers : own->workers;
    return workers.at(static_cast<std::size_t>(local_rank));
}

std::vector<std::string> argv_of_worker(const LaunchOptions& options, const WrapPlace& place) {
    const auto& argv = plan_of_worker(options, place.rank, place.local_rank).argv;
    return options.wraps.empty() ? argv : wrapped_argv(options.wraps, argv, place);
}

WorkerSpec place_worker(const LaunchOptions& options, const RoundReady& round, int local_rank,
                        const WorkerStation& station) {
    const WorkerIdentity identity = identity_of(options, round, local_rank, station);
    const WorkerPlan& plan = plan_of_worker(options, identity.rank, local_rank);
    Environment environment = options.environment;
    for (const auto& [name, value] : plan.additions) environment[name] = value;
    for (const RankVariable& variable : options.rank_variables) {
        if (variable.names(identity.rank, local_rank)) environment[variable.name] = variable.value;
    }
    environment["TORCHELASTIC_ERROR_FILE"] = station.error_file;
    environment.insert(station.added.unless_set.begin(), station.added.unless_set.end());
    for (const auto& [name, value] : station.added.over) environment[name] = value;

    WorkerSpec spec;
    spec.argv = argv_of_worker(options, {identity.rank, local_rank, station.host});
    spec.environment = worker_environment(std::move(environment), identity);
    spec.rank = identity.rank;
    spec.local_rank = local_rank;
    spec.standard_output = station.standard_output;
    spec.standard_error = station.standard_error;
    spec.ignore_hangup = options.hangup_ignored;
    spec.cpus = plan.cpus;
    spec.memory_node = plan.memory_node;
    spec.open_files = options.open_files;
    const StandardInput& input = options.standard_input;
    if (input.all || input.rank == identity.rank) spec.standard_input = Stdio::inherit;
    if (options.read_program) spec.standard_input = station.program_input;
    if (options.tty_rank == identity.rank) lend_streams(spec, station.added.launcher);
    return spec;
}

std::optional<SecretKey> mesh_key_of(const LaunchOptions& options, const RoundReady& round) {
    if (options.key) return mesh_key(*options.key, round.job_id, round.round);
    if (round.group_world_size > 1) return std::nullopt;
    return SecretKey::fresh();
}

std::optional<int> local_rank_of_tty(const LaunchOptions& options, const RoundReady& round) {
    if (!options.tty_rank) return std::nullopt;
    const int local_rank = *options.tty_rank - round.base_rank;
    const bool is_here = local_rank >= 0 && local_rank < static_cast<int>(options.workers.size());
    return is_here ? std::optional(local_rank) : std::nullopt;
}

Complaint rank_beyond_job(const LaunchOptions& options, int world_size) {
    const Bounds job{world_size, "the job", "rank"};
    if (auto wrong = job.refuse("--show", options.output.ranks_shown.beyond(world_size))) return wrong;
    if (options.tty_rank && *options.tty_rank >= world_size)
        return job.refuse("--tty", std::to_string(*options.tty_rank));
    const auto& reader = options.standard_input.rank;
    if (reader && *reader > 0 && *reader >= world_size) return job.refuse("--stdin", std::to_string(*reader));
    return job.refuse(options, false);
}

Complaint local_rank_beyond_node(const LaunchOptions& options) {
    const OutputPlan& output = options.output;
    const Bounds node{static_cast<int>(options.workers.size()), "this node", "local rank"};
    if (auto wrong = node.refuse("--redirects", output.redirects.beyond(node.count))) return wrong;
    if (auto wrong = node.refuse("--tee", output.tee.beyond(node.count))) return wrong;
    if (auto wrong = node.refuse("--local-ranks-filter", output.local_ranks_shown.beyond(node.count)))
        return wrong;
    return node.refuse(options, true);
}

}  // namespace launch
}  // namespace ddprun
