#include "launcher/cluster/rank_order.hpp"

#include <fmt/core.h>

#include <vector>

#include "launcher/cluster/host_list.hpp"
#include "rendezvous/control/agent_message.hpp"

namespace ddprun::inline launch {
namespace {

constexpr const char* kTopologyVariable = "SLURM_TOPOLOGY_ADDR";

std::string_view take_line(std::string_view& text) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    line = line.substr(0, line.find('#'));
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return {};
    return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace

RankOrder order_by_topology(const Environment& environment) {
    const std::string* path = find_variable(environment, kTopologyVariable);
    if (path != nullptr && !path->empty() && path->size() <= kMaxRankOrderText) return {*path, {}};
    return {{},
            fmt::format("--rank-order topology: {} is {}; this node's ranks come behind those of nodes "
                        "where it is known",
                        kTopologyVariable,
                        path == nullptr || path->empty() ? "not set here" : "too long to be an address")};
}

std::variant<RankOrder, std::string> order_by_file(std::string_view text, const std::string& host_name) {
    std::vector<std::string> hosts;
    for (int number = 1; !text.empty(); ++number) {
        const std::string_view line = take_line(text);
        if (line.empty()) continue;
        auto expanded = expand_host_list(line);
        if (const auto* wrong = std::get_if<std::string>(&expanded))
            return fmt::format("line {}: {}", number, *wrong);
        auto& more = std::get<std::vector<std::string>>(expanded);
        if (hosts.size() + more.size() > kMaxListedHosts)
            return fmt::format("line {}: more than {} hosts", number, kMaxListedHosts);
        hosts.insert(hosts.end(), more.begin(), more.end());
    }
    if (hosts.empty()) return "names no host";
    if (const auto position = position_of(host_name, hosts)) return RankOrder{std::to_string(*position), {}};
    return RankOrder{{},
                     fmt::format("this host ({}) is not in it, or several of its names may be; its ranks "
                                 "come behind those of the hosts that are",
                                 host_name)};
}

}  // namespace ddprun::inline launch
