// This file reads what started this process as one of several tasks: mpirun and its kind, srun, blaunch.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "launcher/cluster/readers.hpp"
#include "rendezvous/worker/mpirun_machine.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr TaskNames kPals{.size = "PMI_SIZE",
                          .rank = "PALS_RANKID",
                          .local_size = "PMI_LOCAL_SIZE",
                          .local_rank = "PALS_LOCAL_RANKID",
                          .node_rank = "PALS_NODEID",
                          .job_id = "PALS_APID",
                          .job_name = "pals",
                          .one_per_node = "mpiexec --ppn 1"};

constexpr TaskNames kJsrun{.size = "JSM_NAMESPACE_SIZE",
                           .rank = "JSM_NAMESPACE_RANK",
                           .local_size = "JSM_NAMESPACE_LOCAL_SIZE",
                           .local_rank = "JSM_NAMESPACE_LOCAL_RANK",
                           .job_id = "PMIX_NAMESPACE",
                           .job_name = "jsrun",
                           .one_per_node = "jsrun --rs_per_host=1 --tasks_per_rs=1"};

// Counts the nodes of tasks that are spread evenly; the source is what tells so.
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
    claim_number(view, facts, Fact::node_rank, names.node_rank, 0);
    const Tasks& tasks = *facts.tasks;
    if (tasks.task && tasks.nodes == tasks.count)
        claim(facts, Fact::node_rank, std::to_string(*tasks.task), std::string(names.rank));
}

// OMPI_COMM_WORLD_NODE_RANK is the rank on the node over all jobs, not the number of the node.
constexpr TaskNames kOpenMpi{.size = "OMPI_COMM_WORLD_SIZE",
                             .rank = "OMPI_COMM_WORLD_RANK",
                             .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
                             .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                             .host = "PMIX_HOSTNAME",
                             .job_id = "PMIX_NAMESPACE",
                             .job_name = "openmpi",
                             .one_per_node = "mpirun --map-by ppr:1:node"};

constexpr const char* kStepList = "SLURM_STEP_NODELIST";
constexpr const char* kStepNodes = "SLURM_STEP_NUM_NODES";
constexpr const char* kStepTasks = "SLURM_STEP_NUM_TASKS";
constexpr const char* kStepCounts = "SLURM_STEP_TASKS_PER_NODE";

// The shell of salloc, the batch script and what pam_slurm adopts are steps of these numbers (slurm.h), in
// which srun has started nobody.
constexpr std::array<std::string_view, 3> kShellSteps = {"4294967290", "4294967291", "4294967292"};

bool is_shell_step(const ClusterView& view) {
    const auto step = first_of(view, {"SLURM_STEP_ID", "SLURM_STEPID"});
    return step && std::find(kShellSteps.begin(), kShellSteps.end(), step->text) != kShellSteps.end();
}

// Claims the place in the step, which only the node itself is told.
void claim_step_place(const ClusterView& view, FamilyFacts& facts) {
    const std::string* name = text_of(view, "SLURMD_NODENAME");
    claim_told(view, facts, Fact::own_name, "SLURMD_NODENAME");
    facts.fits = name == nullptr || is_own_name(view, *name);
    const auto names = names_of(facts.hosts);
    const auto number = take_number(view, facts, "SLURM_NODEID", 0);
    if (number) {
        claim(facts, Fact::node_rank, std::to_string(*number), "SLURM_NODEID");
    } else if (const auto place = name != nullptr ? position_of(*name, names) : std::nullopt) {
        claim(facts, Fact::node_rank, std::to_string(*place), "SLURMD_NODENAME");
    }
    const auto position = own_position(view, names);
    if (number && position && *position != *number)
        facts.conflict = fmt::format(
            "SLURM_NODEID={}, but this machine, {}, is number {} of {}: the step's variables are another node's, "
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

// A number that is none of the tasks becomes a conflict.
void check_task(Tasks& tasks, std::string_view variable, FamilyFacts& facts) {
    if (!tasks.task || *tasks.task < tasks.count) return;
    refuse(facts, fmt::format("{}={} is not below {}", variable, *tasks.task, tasks.evidence));
    tasks.task.reset();
}

Tasks read_step_tasks(const ClusterView& view, FamilyFacts& facts, std::optional<int> nodes) {
    const auto tasks = take_number(view, facts, kStepTasks, 1);
    Tasks read{.count = tasks.value_or(nodes.value_or(1)),
               .task = take_number(view, facts, "SLURM_PROCID", 0),
               .local_task = take_number(view, facts, "SLURM_LOCALID", 0),
               .local_count = {},
               .nodes = nodes,
               .evidence = {},
               .one_per_node = "srun --ntasks-per-node=1"};
    read.evidence = fmt::format("{}={}", tasks ? kStepTasks : kStepNodes, read.count);
    if (tasks) check_task(read, "SLURM_PROCID", facts);
    const auto number = number_of(view, "SLURM_NODEID", 0);
    if (number && static_cast<std::size_t>(*number) < facts.hosts.size())
        read.local_count = facts.hosts[static_cast<std::size_t>(*number)].slots;
    if (read.local_count == 0) read.local_count.reset();
    if (!read.local_count && nodes && read.count % *nodes == 0) read.local_count = read.count / *nodes;
    return read;
}

// srun starts the components of a heterogeneous job in one step, and each may know of itself only.
void check_components(const ClusterView& view, FamilyFacts& facts) {
    const int components = slurm_components(view, facts);
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
        "the job is heterogeneous (SLURM_HET_SIZE={}), and {} may name one of its components only: give --nnodes, --node-rank and --master-addr",
        components, kStepList);
}

}  // namespace

std::optional<FamilyFacts> read_tasks(const ClusterView& view, const TaskNames& names) {
    if (!first_of(view, {names.size, names.nodes})) return std::nullopt;
    FamilyFacts facts;
    const auto size = take_number(view, facts, names.size, 1);
    const auto told_nodes = take_number(view, facts, names.nodes, 1);
    refuse_wrong_number(view, facts, names.node_rank, 0);
    if (!size && !told_nodes) return facts;
    Tasks tasks{.count = size ? *size : *told_nodes,
                .task = take_number(view, facts, names.rank, 0),
                .local_task = take_number(view, facts, names.local_rank, 0),
                .local_count = take_number(view, facts, names.local_size, 1),
                .nodes = {},
                .evidence = fmt::format("{}={}", size ? names.size : names.nodes, size ? *size : *told_nodes),
                .one_per_node = std::string(names.one_per_node)};
    if (tasks.count == 1) tasks.local_count = 1;
    check_task(tasks, names.rank, facts);
    if (const auto nodes = nodes_of_tasks(view, names, tasks.count, tasks.local_count)) {
        facts.claims[Fact::nnodes] = *nodes;
        tasks.nodes = std::stoi(nodes->value);
        if (!tasks.local_count && tasks.count % *tasks.nodes == 0)
            tasks.local_count = tasks.count / *tasks.nodes;
    }
    facts.tasks = std::move(tasks);
    claim_number_of_node(view, names, facts);
    claim_told(view, facts, Fact::own_name, names.host);
    if (const std::string* host = text_of(view, names.host)) facts.fits = is_own_name(view, *host);
    claim_told(view, facts, Fact::job_id, names.job_id, fmt::format("{}-", names.job_name));
    // The user has had it handed on to all tasks, as by mpirun -x.
    claim_master(view, facts);
    facts.ways_out[Fact::node_rank] = "give --node-rank on each node";
    facts.ways_out[Fact::master_addr] = fmt::format(
        "give --master-addr HOST, the node of task 0, or start one ddprun with --hosts from outside of {}",
        names.one_per_node.substr(0, names.one_per_node.find(' ')));
    return facts;
}

std::optional<FamilyFacts> read_pals(const ClusterView& view) {
    if (text_of(view, kPals.rank) == nullptr) return std::nullopt;
    if (auto facts = read_tasks(view, kPals)) return facts;
    // A task that was started without PMI has a number, and is not told of how many.
    FamilyFacts facts;
    for (const std::string_view number : {kPals.rank, kPals.node_rank})
        refuse_wrong_number(view, facts, number, 0);
    claim_number(view, facts, Fact::node_rank, kPals.node_rank, 0);
    facts.ways_out[Fact::nnodes] =
        "PMI_SIZE is not set, so give --nnodes and --master-addr, or --standalone for a job of its own in each task";
    return facts;
}

std::optional<FamilyFacts> read_open_mpi(const ClusterView& view) {
    auto facts = read_tasks(view, kOpenMpi);
    if (!facts || !facts->tasks) return facts;
    // This node has one task, and others may have more.
    const auto nodes = take_number(view, *facts, "OMPI_MCA_orte_num_nodes", 1);
    Tasks& tasks = *facts->tasks;
    if (nodes && tasks.local_count == 1 && *nodes < tasks.count) {
        tasks.nodes = *nodes;
        facts->claims[Fact::nnodes] = {std::to_string(*nodes), "OMPI_MCA_orte_num_nodes", Belief::assumed};
        facts->claims.erase(Fact::node_rank);
    }
    const std::string* uri = text_of(view, kMpirunUri);
    const auto addresses = uri != nullptr ? addresses_of_mpirun(*uri) : std::vector<std::string>{};
    if (addresses.empty()) return facts;
    facts->many_addresses = addresses.size() > 1;
    const MpirunMachine machine = find_mpirun(addresses, view.addresses);
    // mpirun may run where none of its tasks does.
    if (const auto handed = facts->claims.find(Fact::master_addr); handed != facts->claims.end())
        facts->rivals[Fact::master_addr] = {machine.address, kMpirunUri, Belief::assumed};
    else if (tasks.task == 0 && !machine.is_this)
        facts->ways_out[Fact::master_addr] =
            "mpirun runs on another machine (OMPI_MCA_orte_hnp_uri), so give --master-addr HOST, this one's address";
    else
        claim(*facts, Fact::master_addr, machine.address, kMpirunUri);
    return facts;
}

// The first host of LSF's list is the one where the script runs, and none of these tasks.
std::optional<FamilyFacts> read_jsrun(const ClusterView& view) {
    auto facts = read_tasks(view, kJsrun);
    if (!facts || !facts->claims.contains(Fact::node_rank)) return facts;
    std::string source;
    auto hosts = read_lsf_hosts(view, source);
    if (hosts.empty()) return facts;
    hosts.erase(hosts.begin());
    const auto position = own_position(view, names_of(hosts));
    const bool agrees = facts->claims[Fact::nnodes].value == std::to_string(hosts.size()) && position &&
                        facts->claims[Fact::node_rank].value == std::to_string(*position);
    if (!agrees) return facts;
    claim(*facts, Fact::master_addr, hosts.front().name, source);
    facts->hosts = std::move(hosts);
    facts->hosts_source = std::move(source);
    return facts;
}

std::optional<FamilyFacts> read_hydra(const ClusterView& view) {
    return first_of(view, {kHydra.local_size, "HYDI_CONTROL_FD"}) ? read_tasks(view, kHydra) : std::nullopt;
}

std::optional<FamilyFacts> read_slurm_step(const ClusterView& view) {
    if (is_shell_step(view)) return std::nullopt;
    auto nodes = number_of(view, kStepNodes, 1);
    const auto tasks = number_of(view, kStepTasks, 1);
    if (!first_of(view, {kStepTasks, kStepNodes, kStepList})) return std::nullopt;
    FamilyFacts facts;
    claim_number(view, facts, Fact::nnodes, kStepNodes, 1);
    read_slurm_hosts(view, facts, kStepList, kStepCounts);
    if (!facts.hosts.empty()) {
        if (auto differ = count_conflict(kStepNodes, nodes, kStepList, facts.hosts); !differ.empty())
            facts.conflict = std::move(differ);
        nodes = nodes.value_or(static_cast<int>(facts.hosts.size()));
        claim_listed(facts);
    }
    refuse_wrong_number(view, facts, kStepNodes, 1);
    if (facts.conflict.empty()) claim_step_place(view, facts);
    if (facts.conflict.empty() && tasks) check_step_counts(view, facts, *tasks);
    facts.tasks = read_step_tasks(view, facts, nodes);
    if (facts.conflict.empty()) check_components(view, facts);
    // "12000-12003" of --resv-ports.
    if (const std::string* ports = text_of(view, "SLURM_STEP_RESV_PORTS"))
        claim(facts, Fact::master_port, ports->substr(0, ports->find_first_of("-,")),
              "SLURM_STEP_RESV_PORTS");
    claim_slurm_identity(view, facts, true);
    claim_slurm_limits(view, facts);
    facts.ways_out[Fact::master_addr] =
        "SLURM_STEP_NODELIST is not set, so give --master-addr HOST, the node with SLURM_NODEID=0";
    return facts;
}

// LSF_PM_TASKID counts from 1.
std::optional<FamilyFacts> read_blaunch(const ClusterView& view) {
    if (text_of(view, "LSF_PM_TASKID") == nullptr) return std::nullopt;
    FamilyFacts facts;
    const auto task = take_number(view, facts, "LSF_PM_TASKID", 1);
    if (!task) return facts;
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
        claim_listed(facts);
        tasks.nodes = nodes;
        if (*task <= nodes) tasks.local_count = 1;
    }
    if (const auto position = own_position(view, names_of(facts.hosts)))
        claim(facts, Fact::node_rank, std::to_string(*position), facts.hosts_source);
    else if (*task <= nodes)
        claim(facts, Fact::node_rank, std::to_string(*task - 1), "LSF_PM_TASKID");
    facts.tasks = std::move(tasks);
    claim_told(view, facts, Fact::job_id, "LSB_JOBID", "lsf-");
    return facts;
}

}  // namespace launch
}  // namespace ddprun
