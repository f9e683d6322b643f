#include "launcher/cluster/task_names.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace ddprun::inline launch {
namespace {

// Tasks that are spread evenly; the source is what tells so.
std::optional<Claim> nodes_of_tasks(const ClusterView& view, const TaskNames& names, int tasks,
                                    std::optional<int> local) {
    if (const auto told = number_of(view, names.nodes, 1))
        return Claim{std::to_string(std::min(*told, tasks)), std::string(names.nodes), Belief::assumed};
    if (!local || tasks % *local != 0) return std::nullopt;
    const std::string source =
        *local == 1 ? std::string(names.size) : fmt::format("{}/{}", names.size, names.local_size);
    return Claim{std::to_string(tasks / *local), source, Belief::assumed};
}

void claim_number_of_node(const ClusterView& view, const TaskNames& names, FamilyFacts& facts) {
    if (const auto number = number_of(view, names.node_rank, 0))
        return claim(facts, Fact::node_rank, std::to_string(*number), std::string(names.node_rank));
    const Tasks& tasks = *facts.tasks;
    if (tasks.task && tasks.nodes == tasks.count)
        claim(facts, Fact::node_rank, std::to_string(*tasks.task), std::string(names.rank));
}

}  // namespace

std::optional<FamilyFacts> read_tasks(const ClusterView& view, const TaskNames& names) {
    const auto size = number_of(view, names.size, 1);
    const auto told_nodes = number_of(view, names.nodes, 1);
    if (!size && !told_nodes) return std::nullopt;
    FamilyFacts facts;
    Tasks tasks{.count = size ? *size : *told_nodes,
                .task = number_of(view, names.rank, 0),
                .local_task = number_of(view, names.local_rank, 0),
                .local_count = number_of(view, names.local_size, 1),
                .nodes = {},
                .evidence = fmt::format("{}={}", size ? names.size : names.nodes, size ? *size : *told_nodes),
                .one_per_node = std::string(names.one_per_node)};
    if (tasks.count == 1) tasks.local_count = 1;
    if (tasks.task && *tasks.task >= tasks.count) {
        facts.conflict = fmt::format("{}={} is not below {}", names.rank, *tasks.task, tasks.evidence);
        tasks.task.reset();
    }
    if (const auto nodes = nodes_of_tasks(view, names, tasks.count, tasks.local_count)) {
        facts.claims[Fact::nnodes] = *nodes;
        tasks.nodes = std::stoi(nodes->value);
        if (!tasks.local_count && tasks.count % *tasks.nodes == 0)
            tasks.local_count = tasks.count / *tasks.nodes;
    }
    facts.tasks = std::move(tasks);
    claim_number_of_node(view, names, facts);
    if (const std::string* host = names.host.empty() ? nullptr : text_of(view, names.host)) {
        claim(facts, Fact::own_name, *host, std::string(names.host));
        facts.fits = is_own_name(view, *host);
    }
    if (const std::string* id = names.job_id.empty() ? nullptr : text_of(view, names.job_id))
        claim(facts, Fact::job_id, fmt::format("{}-{}", names.job_name, *id), std::string(names.job_id));
    facts.ways_out[Fact::node_rank] = "give --node-rank on each node";
    facts.ways_out[Fact::master_addr] =
        "give --master-addr HOST, the node of task 0, or name the nodes by --hosts";
    return facts;
}

}  // namespace ddprun::inline launch
