#include <fmt/core.h>

#include <array>

#include "launcher/cluster/host_lines.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/cluster/slurm.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline launch {
namespace {

constexpr const char* kStepList = "SLURM_STEP_NODELIST";
constexpr const char* kStepNodes = "SLURM_STEP_NUM_NODES";
constexpr const char* kStepTasks = "SLURM_STEP_NUM_TASKS";
constexpr const char* kStepCounts = "SLURM_STEP_TASKS_PER_NODE";

// The shell of salloc, the batch script and what pam_slurm adopts are steps of these numbers (slurm.h), in which srun has
// started nobody.
constexpr std::array<std::string_view, 3> kShellSteps = {"4294967290", "4294967291", "4294967292"};

bool is_shell_step(const ClusterView& view) {
    const auto step = first_of(view, {"SLURM_STEP_ID", "SLURM_STEPID"});
    if (!step) return false;
    for (const std::string_view shell : kShellSteps) {
        if (step->text == shell) return true;
    }
    return false;
}

// By its place in the step, which only the node itself is told.
void claim_step_place(const ClusterView& view, FamilyFacts& facts) {
    const std::string* name = text_of(view, "SLURMD_NODENAME");
    if (name != nullptr) claim(facts, Fact::own_name, *name, "SLURMD_NODENAME");
    facts.fits = name == nullptr || is_own_name(view, *name);
    const auto names = names_of(facts.hosts);
    const auto number = number_of(view, "SLURM_NODEID", 0);
    if (number) {
        claim(facts, Fact::node_rank, std::to_string(*number), "SLURM_NODEID");
    } else if (const auto place = name != nullptr ? position_of(*name, names) : std::nullopt) {
        claim(facts, Fact::node_rank, std::to_string(*place), "SLURMD_NODENAME");
    }
    const auto position = own_position(view, names);
    if (number && position && *position != *number)
        facts.conflict = fmt::format(
            "SLURM_NODEID={}, but this machine, {}, is number {} of {}: the step's variables are another "
            "node's, "
            "as ssh may pass them on",
            *number, view.host_name, *position, kStepList);
}

// The sum of what the nodes have is that of the step.
void check_step_counts(const ClusterView& view, FamilyFacts& facts, int tasks) {
    long sum = 0;
    for (const ListedHost& host : facts.hosts) sum += host.slots;
    if (sum != 0 && sum != tasks)
        facts.conflict = fmt::format("{}={} is {} tasks, but {}={}", kStepCounts, *text_of(view, kStepCounts),
                                     sum, kStepTasks, tasks);
}

Tasks read_step_tasks(const ClusterView& view, const FamilyFacts& facts, std::optional<int> nodes) {
    const auto tasks = number_of(view, kStepTasks, 1);
    Tasks read{.count = tasks.value_or(nodes.value_or(1)),
               .task = number_of(view, "SLURM_PROCID", 0),
               .local_task = number_of(view, "SLURM_LOCALID", 0),
               .local_count = {},
               .nodes = nodes,
               .evidence = {},
               .one_per_node = "srun --ntasks-per-node=1"};
    read.evidence = fmt::format("{}={}", tasks ? kStepTasks : kStepNodes, read.count);
    const auto number = number_of(view, "SLURM_NODEID", 0);
    if (number && static_cast<std::size_t>(*number) < facts.hosts.size())
        read.local_count = facts.hosts[static_cast<std::size_t>(*number)].slots;
    if (read.local_count == 0) read.local_count.reset();
    if (!read.local_count && nodes && read.count % *nodes == 0) read.local_count = read.count / *nodes;
    return read;
}

// srun starts the components of a heterogeneous job in one step, and each may know of itself only.
void check_components(const ClusterView& view, FamilyFacts& facts) {
    const int components = slurm_components(view);
    if (components < 2) return;
    std::vector<std::string> all;
    for (int i = 0; i < components && all.size() <= kMaxListedHosts; ++i) {
        const std::string* list = text_of(view, fmt::format("SLURM_JOB_NODELIST_HET_GROUP_{}", i));
        if (list == nullptr) break;
        const auto hosts = expand_host_list(*list);
        if (const auto* names = std::get_if<std::vector<std::string>>(&hosts))
            all.insert(all.end(), names->begin(), names->end());
    }
    if (names_of(facts.hosts) == all) return;
    facts.conflict = fmt::format(
        "the job is heterogeneous (SLURM_HET_SIZE={}), and {} may name one of its components only: give "
        "--nnodes, "
        "--node-rank and --master-addr",
        components, kStepList);
}

}  // namespace

std::optional<FamilyFacts> read_slurm_step(const ClusterView& view) {
    if (is_shell_step(view)) return std::nullopt;
    auto nodes = number_of(view, kStepNodes, 1);
    const auto tasks = number_of(view, kStepTasks, 1);
    if (!tasks && !first_of(view, {kStepNodes, kStepList})) return std::nullopt;
    FamilyFacts facts;
    if (nodes) claim(facts, Fact::nnodes, std::to_string(*nodes), kStepNodes);
    read_slurm_hosts(view, facts, kStepList, kStepCounts);
    if (!facts.hosts.empty()) {
        const int listed = static_cast<int>(facts.hosts.size());
        if (auto differ = count_conflict(kStepNodes, nodes, kStepList, facts.hosts); !differ.empty())
            facts.conflict = std::move(differ);
        if (!nodes) claim(facts, Fact::nnodes, std::to_string(listed), kStepList);
        nodes = nodes.value_or(listed);
        claim(facts, Fact::master_addr, facts.hosts.front().name, kStepList);
    }
    if (facts.conflict.empty()) facts.conflict = wrong_number(view, kStepNodes, 1);
    if (facts.conflict.empty()) claim_step_place(view, facts);
    if (facts.conflict.empty() && tasks) check_step_counts(view, facts, *tasks);
    facts.tasks = read_step_tasks(view, facts, nodes);
    if (facts.conflict.empty()) check_components(view, facts);
    // "12000-12003" of --resv-ports.
    if (const std::string* ports = text_of(view, "SLURM_STEP_RESV_PORTS")) {
        if (const auto port = parse_port(ports->substr(0, ports->find_first_of("-,"))))
            claim(facts, Fact::master_port, std::to_string(*port), "SLURM_STEP_RESV_PORTS");
    }
    if (auto identity = slurm_identity(view, true)) facts.claims.emplace(Fact::job_id, *std::move(identity));
    claim_slurm_limits(view, facts);
    facts.ways_out[Fact::master_addr] =
        "SLURM_STEP_NODELIST is not set, so give --master-addr HOST, the node with SLURM_NODEID=0";
    return facts;
}

}  // namespace ddprun::inline launch
