#include <fmt/core.h>

#include <algorithm>

#include "launcher/cluster/lsf.hpp"

namespace ddprun::inline launch {

// LSF_PM_TASKID counts from 1.
std::optional<FamilyFacts> read_blaunch(const ClusterView& view) {
    const auto task = number_of(view, "LSF_PM_TASKID", 1);
    if (!task) return std::nullopt;
    FamilyFacts facts;
    facts.hosts = read_lsf_hosts(view, facts.hosts_source);
    const int nodes = static_cast<int>(facts.hosts.size());
    Tasks tasks{.count = std::max(nodes, *task),
                .task = *task - 1,
                .local_task = {},
                .local_count = {},
                .nodes = {},
                .evidence = fmt::format("LSF_PM_TASKID={}", *task),
                .one_per_node = "blaunch -z \"$HOSTS\""};
    facts.ways_out[Fact::nnodes] = "give --nnodes, --node-rank and --master-addr";
    if (nodes > 0) {
        claim(facts, Fact::nnodes, std::to_string(nodes), facts.hosts_source);
        claim(facts, Fact::master_addr, facts.hosts.front().name, facts.hosts_source);
        tasks.nodes = nodes;
        if (*task <= nodes) tasks.local_count = 1;
    }
    if (const auto position = own_position(view, names_of(facts.hosts)))
        claim(facts, Fact::node_rank, std::to_string(*position), facts.hosts_source);
    else if (*task <= nodes)
        claim(facts, Fact::node_rank, std::to_string(*task - 1), "LSF_PM_TASKID");
    facts.tasks = std::move(tasks);
    claim_lsf_identity(view, facts);
    return facts;
}

}  // namespace ddprun::inline launch
