// What must hold of every environment, whatever stands in it: for text_fuzz.
#pragma once

#include <algorithm>

#include "launcher/cluster/cluster_lines.hpp"
#include "launcher/cluster/cluster_table.hpp"
#include "launcher/cluster/host_list.hpp"
#include "rendezvous/text/split.hpp"
#include "tests/launcher/text_checks.hpp"

namespace ddprun {

// A variable in each line; one that begins with @ is a file's path, whose lines are the next ones', each
// behind a |.
inline void read_clusters(Text text) {
    ClusterView view{.environment = {}, .host_name = "gpu07", .addresses = {"10.0.0.7"}, .files = {}};
    std::string file;
    for (const Text line : split_at(text, '\n')) {
        const std::size_t sign = std::min(line.find('='), line.size());
        if (line.starts_with('@'))
            view.files[file = line.substr(1)];
        else if (line.starts_with('|'))
            view.files[file].append(line.substr(1)).append("\n");
        else
            view.environment[std::string(line.substr(0, sign))] =
                line.substr(std::min(sign + 1, line.size()));
    }
    const ClusterTable table = derive_cluster(view, {});
    const auto nodes = chosen_number(table, Fact::nnodes);
    const auto rank = chosen_number(table, Fact::node_rank);
    must(!table.refusal.empty() || nodes, "a job of nobody knows how many nodes");
    const bool is_of_agents = table.refusal.empty() && table.situation == Situation::agent_per_node;
    must(!is_of_agents || *nodes < 2 || (rank && *rank < *nodes), "a node outside its job");
    for (const std::string& line : cluster_lines(table)) must(!line.empty(), "an empty line");
    derived_line(table, 1);
    if (const auto counts = expand_task_counts(text); const auto* all = value_of(counts))
        must(all->size() <= kMaxListedHosts, "more counts than there may be nodes");
}

}  // namespace ddprun
