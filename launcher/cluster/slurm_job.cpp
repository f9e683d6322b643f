#include <fmt/core.h>

#include <array>

#include "launcher/cluster/host_lines.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/cluster/slurm.hpp"
#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

// Of one job.
constexpr int kMaxGpus = 10'000'000;

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
    if (components > 1) {
        // What else there is may be the first component's.
        if (const auto sum = nodes_of_components(view, components))
            return claim(facts, Fact::nnodes, std::to_string(*sum), "SLURM_JOB_NUM_NODES_HET_GROUP_*");
        facts.ways_out[Fact::nnodes] = fmt::format(
            "the job has {} components by SLURM_HET_SIZE, of which SLURM_JOB_NUM_NODES_HET_GROUP_* are not "
            "set, so name its hosts by --hosts or --hostfile",
            components);
        return;
    }
    for (const char* variable : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}) {
        if (const auto nodes = number_of(view, variable, 1))
            claim(facts, Fact::nnodes, std::to_string(*nodes), variable);
    }
    if (!facts.hosts.empty())
        claim(facts, Fact::nnodes, std::to_string(facts.hosts.size()), facts.hosts_source);
}

// Count and list of one pair are of one job, or both are the step's.
std::string wrong_counts(const ClusterView& view, const FamilyFacts& facts) {
    constexpr std::array<std::array<const char*, 2>, 2> kPairs = {
        {{"SLURM_JOB_NUM_NODES", "SLURM_JOB_NODELIST"}, {"SLURM_NNODES", "SLURM_NODELIST"}}};
    for (const auto& [count, list] : kPairs) {
        if (auto wrong = wrong_number(view, count, 1); !wrong.empty()) return wrong;
        if (facts.hosts_source != list) continue;
        if (auto differ = count_conflict(count, number_of(view, count, 1), list, facts.hosts);
            !differ.empty())
            return differ;
    }
    return {};
}

// Of "8", "a100:8" and "a100:4,v100:2".
std::optional<int> gpus_of(const std::string& text) {
    int sum = 0;
    for (const std::string_view part : split_at(text, ',')) {
        const auto count = whole_number<int>(part.substr(part.rfind(':') + 1), 1, kMaxGpus);
        if (!count || sum > kMaxGpus) return std::nullopt;
        sum += *count;
    }
    return sum;
}

// A step of one task on one node is given what the job has for each node, but only its share of what it has for each task, and
// all of what it has in total, which no node has. False where nobody says what each node has.
bool claim_step_gpus(const ClusterView& view, FamilyFacts& facts) {
    if (const std::string* each = text_of(view, "SLURM_GPUS_PER_TASK")) {
        const auto gpus = gpus_of(*each);
        for (ListedHost& host : facts.hosts) {
            if (gpus && host.slots > 0 && host.slots <= kMaxGpus / *gpus) host.gpus = *gpus * host.slots;
            if (host.gpus == 0) return false;
        }
        return true;
    }
    const std::string* all = text_of(view, "SLURM_GPUS");
    if (all == nullptr || text_of(view, "SLURM_GPUS_PER_NODE") != nullptr || facts.hosts.empty()) return true;
    const auto gpus = gpus_of(*all);
    const int nodes = static_cast<int>(facts.hosts.size());
    if (!gpus || *gpus % nodes != 0) return false;
    for (ListedHost& host : facts.hosts) host.gpus = *gpus / nodes;
    return true;
}

}  // namespace

std::optional<FamilyFacts> read_slurm_job(const ClusterView& view) {
    const auto list = first_of(view, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
    // A shell of salloc in front of several components has none of the rest.
    const bool is_job =
        list || slurm_components(view) > 1 || first_of(view, {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
    if (!is_job) return std::nullopt;
    FamilyFacts facts;
    if (list) read_slurm_hosts(view, facts, list->name, "SLURM_TASKS_PER_NODE");
    // A step's own count has taken its place there.
    if (!facts.conflict.empty() && !facts.hosts.empty()) facts.conflict.clear();
    if (facts.conflict.empty()) facts.conflict = wrong_counts(view, facts);
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
    if (claim_step_gpus(view, facts)) facts.reached_by = "srun";
    facts.reached_from_outside = true;
    // A shell of salloc, which may run on one of the job's nodes; slurmd tells its own processes.
    facts.is_outside = text_of(view, "SLURMD_NODENAME") == nullptr;
    facts.must_be_listed = true;
    return facts;
}

HostList slurm_host_list(const ClusterView& view) {
    HostList list;
    auto facts = read_slurm_job(view);
    if (!facts) return list;
    refuse_false_names(*facts);
    list.hosts = names_of(facts->hosts);
    if (list.hosts.empty() && !facts->conflict.empty())
        list.complaint =
            fmt::format("{}; passed over, and nodes are numbered by their host names", facts->conflict);
    const auto place = facts->claims.find(Fact::node_rank);
    if (place != facts->claims.end()) list.position = whole_number<int>(place->second.value);
    return list;
}

}  // namespace ddprun::inline launch
