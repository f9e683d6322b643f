#include "apps/ddprun/options/said.hpp"

#include <fmt/core.h>

#include <variant>

#include "launcher/harmless_text.hpp"

namespace ddprun {
inline namespace app {
namespace {

using Milliseconds = std::chrono::milliseconds;

constexpr std::string_view kMasterAddr = "--master-addr";

using Hosts = std::vector<HostSlots>;

Hosts hosts_of_flag(const std::string& flag, const std::string& text,
                    std::variant<Hosts, std::string> parsed) {
    if (const auto* why = std::get_if<std::string>(&parsed))
        throw UsageError(fmt::format("{} {}: {}", flag, harmless_line(text), *why));
    return std::get<Hosts>(std::move(parsed));
}

}  // namespace

Hosts selected_hosts(const StartRequest& start, Hosts hosts) {
    if (!start.include.empty())
        hosts =
            hosts_of_flag("--include", start.include, select_hosts(hosts, Selection::include, start.include));
    if (!start.exclude.empty())
        hosts =
            hosts_of_flag("--exclude", start.exclude, select_hosts(hosts, Selection::exclude, start.exclude));
    return hosts;
}

Hosts said_hosts(const StartRequest& start, const std::string& file_text) {
    if (start.host_file.empty())
        return selected_hosts(start, hosts_of_flag("--hosts", start.hosts, parse_hosts(start.hosts)));
    auto found = parse_host_file(file_text, start.host_file);
    if (const auto* wrong = std::get_if<std::string>(&found)) throw UsageError("--hostfile " + *wrong);
    return selected_hosts(start, std::get<Hosts>(std::move(found)));
}

std::string nnodes_text(const Said& line) {
    const std::string most = std::to_string(line.nnodes);
    return line.elasticity.is_elastic() ? fmt::format("{}:{}", *line.elasticity.min_nodes, most) : most;
}

SaidTimes said_times(const Said& line) {
    const auto time = [&line](const char* flag, Milliseconds own, const auto& conf) {
        const auto said = line.origins.find(flag);
        const bool is_own = !conf || (said != line.origins.end() &&
                                      said->second.source >= line.origins.at("--rdzv-conf").source);
        return is_own ? own : *conf;
    };
    return {time("--join-timeout", line.join_timeout, line.rdzv_conf.join_timeout),
            time("--heartbeat", line.heartbeat, line.rdzv_conf.heartbeat),
            time("--last-call", line.elasticity.last_call, line.rdzv_conf.last_call)};
}

std::string as_said(const Said& line, const std::string& message) {
    const bool is_endpoints = line.rdzv_endpoint.is_said() && line.rdzv_backend != RdzvBackend::etcd;
    if (is_endpoints && message.starts_with(kMasterAddr))
        return as_said("--rdzv-endpoint" + message.substr(kMasterAddr.size()), line.typed, line.origins);
    return as_said(message, line.typed, line.origins);
}

std::string node_rank_complaint(const Said& line) {
    if (line.node_rank < line.nnodes) return "";
    return fmt::format("--node-rank {}: must be less than --nnodes, which is {}", line.node_rank,
                       nnodes_text(line));
}

}  // namespace app
}  // namespace ddprun
