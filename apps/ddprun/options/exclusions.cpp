#include "apps/ddprun/options/exclusions.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "apps/ddprun/options/job_options.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/features/node_check.hpp"
#include "launcher/features/time_limit.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace app {
namespace {

long seconds_of(std::chrono::milliseconds time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

// Returns the name of a signal of --requeue-on that ends the job; empty: none does.
std::string ending_signal(const Said& line) {
    for (const int signal : line.requeue_signals) {
        const auto& ending = line.terminating_signals;
        const bool ends = std::find(ending.begin(), ending.end(), signal) != ending.end();
        if (!ends || line.forwarded_signals.contains(signal)) continue;
        const std::string name = signal_name(signal).value_or(std::to_string(signal));
        return name.substr(name.starts_with("SIG") ? 3 : 0);
    }
    return "";
}

// Without --nnodes the spares would need it all the more: only they can be the weaker ones.
Clash clash_of_spares(const Said& line) {
    const auto nodes = line.origins.find("--nnodes"), spares = line.origins.find("--spares");
    const bool is_weaker = nodes != line.origins.end() && spares != line.origins.end() &&
                           spares->second.source < nodes->second.source;
    return {fmt::format("--spares {}", line.elasticity.spares), is_weaker ? "--nnodes" : "",
            fmt::format("needs --nnodes MIN:MAX, which counts the spares, too; for {} that work give "
                        "--nnodes {}:{}",
                        line.nnodes, line.nnodes, line.nnodes + line.elasticity.spares)};
}

// A node that falls silent is to be noticed while others still wait for it.
Clash clash_of_heartbeat(const Said& line, const SaidTimes& times) {
    const bool is_of_conf = line.rdzv_conf.heartbeat == times.heartbeat;
    return {fmt::format(
                "{} {}",
                is_of_conf ? "--rdzv-conf keep_alive_interval times keep_alive_max_attempt:" : "--heartbeat",
                seconds_of(times.heartbeat)),
            is_of_conf ? "" : "--join-timeout",
            fmt::format("must be less than --join-timeout, which is {} s", seconds_of(times.join_timeout))};
}

// Returns how many hosts are named; nothing where they cannot be read, of which the start complains.
std::optional<int> hosts_named(const Said& line) {
    ToldFiles::Text text = std::string();
    if (const std::string& file = line.start.host_file; !file.empty())
        text = line.files.read(file, kMaxHostListText);
    if (!text) return std::nullopt;
    try {
        return static_cast<int>(said_hosts(line.start, edited_text(*text)).size());
    } catch (const UsageError&) {
        return std::nullopt;
    }
}

}  // namespace

std::optional<Clash> clash_of(const Said& line) {
    const auto is_said = [&line](const char* flag) { return line.origins.contains(flag); };
    const bool is_executed = line.no_python && !line.run_path;
    const bool sees_more = line.gpu_bind == GpuBind::all || line.gpu_bind == GpuBind::none;
    const StandardInput& input = line.standard_input;
    const bool reads = is_said("--stdin") && (input.all || input.rank);
    const std::string reader = "--stdin " + (input.all ? "all" : std::to_string(input.rank.value_or(0)));
    const std::string ending = ending_signal(line);
    const SaidTimes times = said_times(line);
    const bool is_late = times.heartbeat >= times.join_timeout &&
                         (is_said("--heartbeat") || line.rdzv_conf.heartbeat == times.heartbeat);
    const bool is_check = line.features.of<NodeCheckOptions>().asked;
    const auto& limit = line.features.of<TimeLimitOptions>();
    struct Row {
        bool holds;
        Clash clash;
    };
    const Row rows[] = {
        {is_executed && line.module, {"--no-python", "--module", "contradicts --module (-m)"}},
        {is_executed && line.python && is_said("--python"),
         {"--no-python", "--python", "contradicts --python"}},
        {is_executed && !line.legacy_launch.empty(),
         {"--no-python", "--legacy-launch",
          "with --legacy-launch it needs --use-env, since " + line.legacy_launch + " is for a script"}},
        {line.virtual_local_rank && is_said("--gpu-bind") && sees_more,
         {"--virtual-local-rank", "--gpu-bind",
          "every worker sees its own GPU only; --gpu-bind says otherwise"}},
        {reads && line.tty_rank, {reader, "--tty", "contradicts --tty, whose rank has it"}},
        {reads && line.detach, {reader, "--detach", "contradicts --detach, after which nothing is read"}},
        {line.standalone && line.nnodes != 1 && line.elasticity.min_nodes != 1,
         {"--standalone", "--nnodes", "one node only, but --nnodes is " + nnodes_text(line)}},
        {!ending.empty(),
         {"--requeue-on " + ending, "--signals-to-handle",
          "contradicts --signals-to-handle, by which it ends the job"}},
        {line.elasticity.spares > 0 && !line.elasticity.is_elastic(), clash_of_spares(line)},
        {line.detach && line.tty_rank,
         {"--detach", "--tty", "goes on without a terminal, so --tty cannot be given with it"}},
        {line.numa_binding && is_said("--bind"),
         {"--bind", "--numa-binding", "contradicts --numa-binding; one of them is enough"}},
        {is_check && line.dry_run, {"--check", "--dry-run", "contradicts --dry-run"}},
        {is_check && line.adapt, {"--check", "--adapt", "contradicts --adapt"}},
        {line.quiet && line.verbose, {"--quiet", "--verbose", "contradicts --verbose"}},
        // What only the default breaks is no contradiction of the user's.
        {is_late, clash_of_heartbeat(line, times)},
        {limit.warn_before && limit.limit && *limit.warn_before >= *limit.limit,
         {"--warn-before " + limit.warn_text, "--time-limit",
          "must be less than --time-limit, which is " + limit.limit_text}}};
    const auto* clash =
        std::find_if(std::begin(rows), std::end(rows), [](const Row& row) { return row.holds; });
    return clash == std::end(rows) ? std::nullopt : std::optional(clash->clash);
}

std::optional<Clash> clash_with_hosts(const Said& line, const std::string& hosts) {
    const auto with_hosts = [&hosts](const std::string& flag, const std::string& why) {
        return Clash{flag, hosts, fmt::format("contradicts {}: {}", hosts, why)};
    };
    Said unused;
    for (const OptionGroup& group : option_rows(unused)) {
        for (const OptionRow& row : group.rows) {
            if (!row.not_with_hosts.empty() && line.origins.contains(long_name(row)))
                return with_hosts(long_name(row), row.not_with_hosts);
        }
    }
    if (line.rdzv_backend != RdzvBackend::fixed)
        return with_hosts("--rdzv-backend", "node 0 hosts the rendezvous");
    for (const auto& [flag, other] : {std::pair{"--hostfile", "--hosts"}, {"--exclude", "--include"}}) {
        if (line.origins.contains(flag) && line.origins.contains(other))
            return Clash{flag, other, fmt::format("contradicts {}; one of them is enough", other)};
    }
    return std::nullopt;
}

std::optional<Clash> clash_of_nnodes(const Said& line, const std::string& hosts, int count) {
    if (!line.origins.contains("--nnodes") || line.nnodes == count) return std::nullopt;
    return Clash{"--nnodes", hosts,
                 fmt::format("{} contradicts {}, which names {}", nnodes_text(line), hosts, count)};
}

std::optional<WeakerOption> weaker_option(const Said& line) {
    std::optional<Clash> clash = clash_of(line);
    if (!clash && line.start.is_asked()) {
        const std::string flag = line.start.hosts.empty() ? "--hostfile" : "--hosts";
        clash = clash_with_hosts(line, flag);
        const auto count = clash || !line.origins.contains("--nnodes") ? std::nullopt : hosts_named(line);
        if (count) clash = clash_of_nnodes(line, flag, *count);
    }
    if (!clash) return std::nullopt;
    const auto one = line.origins.find(clash->said.substr(0, clash->said.find(' ')));
    const auto two = line.origins.find(clash->other);
    const auto none = line.origins.end();
    if (one == none || two == none || one->second.source == two->second.source) return std::nullopt;
    const bool is_first = one->second.source < two->second.source;
    const auto &weaker = *(is_first ? one : two), &stronger = *(is_first ? two : one);
    return WeakerOption{
        weaker.first, fmt::format("{}{}: passed over, since {}{} is stronger and excludes it", weaker.first,
                                  origin_text(weaker.second), stronger.first, origin_text(stronger.second))};
}

}  // namespace app
}  // namespace ddprun
