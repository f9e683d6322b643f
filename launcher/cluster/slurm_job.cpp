#include <fmt/core.h>

#include "launcher/cluster/host_list.hpp"
#include "launcher/cluster/slurm.hpp"

namespace ddprun {
namespace {

// Of all components of a heterogeneous job; each of them has variables of its own.
std::optional<long> nodes_of_components(const ClusterView& view, int components) {
    long sum = 0;
    for (int i = 0; i < components; ++i) {
        const auto nodes = number_of(view, fmt::format("SLURM_JOB_NUM_NODES_HET_GROUP_{}", i), 1);
        if (!nodes || sum > static_cast<long>(kMaxListedHosts)) return std::nullopt;
        sum += *nodes;
    }
    return sum;
}

void claim_job_nodes(const ClusterView& view, FamilyFacts& facts) {
    const int components = slurm_components(view);
    if (const auto sum = components > 1 ? nodes_of_components(view, components) : std::nullopt)
        claim(facts, Fact::nnodes, std::to_string(*sum), "SLURM_JOB_NUM_NODES_HET_GROUP_*");
    for (const char* variable : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}) {
        if (const auto nodes = number_of(view, variable, 1))
            claim(facts, Fact::nnodes, std::to_string(*nodes), variable);
    }
    if (!facts.hosts.empty())
        claim(facts, Fact::nnodes, std::to_string(facts.hosts.size()), facts.hosts_source);
}

}  // namespace

std::optional<FamilyFacts> read_slurm_job(const ClusterView& view) {
    const auto list = first_of(view, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
    if (!list && !first_of(view, {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"})) return std::nullopt;
    FamilyFacts facts;
    if (list) read_slurm_hosts(view, facts, list->name, "SLURM_TASKS_PER_NODE");
    // A step's own count has taken its place there.
    if (!facts.conflict.empty() && !facts.hosts.empty()) facts.conflict.clear();
    claim_job_nodes(view, facts);
    const auto names = names_of(facts.hosts);
    auto position = own_position(view, names);
    std::string source = facts.hosts_source;
    if (const std::string* name = text_of(view, "SLURMD_NODENAME")) {
        claim(facts, Fact::own_name, *name, "SLURMD_NODENAME");
        if (!position) {
            position = position_of(*name, names);
            source = "SLURMD_NODENAME";
        }
    }
    if (position) claim(facts, Fact::node_rank, std::to_string(*position), source);
    if (!facts.hosts.empty()) claim(facts, Fact::master_addr, facts.hosts.front().name, facts.hosts_source);
    if (auto identity = slurm_identity(view, false)) facts.claims.emplace(Fact::job_id, *std::move(identity));
    claim_slurm_limits(view, facts);
    facts.start_others = "srun --ntasks-per-node=1 ddprun …";
    facts.reached_by = "srun";
    facts.reached_from_outside = true;
    facts.must_be_listed = true;
    return facts;
}

}  // namespace ddprun
