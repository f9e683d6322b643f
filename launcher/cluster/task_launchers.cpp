// The process launchers that tell their tasks nothing but numbers: who hosts the rendezvous a list has to say, or the user.
#include <array>

#include "launcher/cluster/lsf.hpp"
#include "launcher/cluster/task_names.hpp"

namespace ddprun::inline launch {
namespace {

constexpr TaskNames kFlux{.size = "FLUX_JOB_SIZE",
                          .rank = "FLUX_TASK_RANK",
                          .local_rank = "FLUX_TASK_LOCAL_ID",
                          .nodes = "FLUX_JOB_NNODES",
                          .job_id = "FLUX_JOB_ID",
                          .job_name = "flux",
                          .one_per_node = "flux run --tasks-per-node=1"};
constexpr TaskNames kPals{.size = "PMI_SIZE",
                          .rank = "PALS_RANKID",
                          .local_size = "PMI_LOCAL_SIZE",
                          .local_rank = "PALS_LOCAL_RANKID",
                          .node_rank = "PALS_NODEID",
                          .job_id = "PALS_APID",
                          .job_name = "pals",
                          .one_per_node = "mpiexec --ppn 1"};
constexpr TaskNames kMvapich{.size = "MV2_COMM_WORLD_SIZE",
                             .rank = "MV2_COMM_WORLD_RANK",
                             .local_size = "MV2_COMM_WORLD_LOCAL_SIZE",
                             .local_rank = "MV2_COMM_WORLD_LOCAL_RANK",
                             .one_per_node = "mpiexec -ppn 1"};
constexpr TaskNames kJsrun{.size = "JSM_NAMESPACE_SIZE",
                           .rank = "JSM_NAMESPACE_RANK",
                           .local_size = "JSM_NAMESPACE_LOCAL_SIZE",
                           .local_rank = "JSM_NAMESPACE_LOCAL_RANK",
                           .job_id = "PMIX_NAMESPACE",
                           .job_name = "jsrun",
                           .one_per_node = "jsrun --rs_per_host=1 --tasks_per_rs=1"};
constexpr TaskNames kHorovod{.size = "HOROVOD_SIZE",
                             .rank = "HOROVOD_RANK",
                             .local_size = "HOROVOD_LOCAL_SIZE",
                             .local_rank = "HOROVOD_LOCAL_RANK",
                             .nodes = "HOROVOD_CROSS_SIZE",
                             .node_rank = "HOROVOD_CROSS_RANK",
                             .one_per_node = "horovodrun -H HOST:1,…"};
constexpr TaskNames kHydra{.size = "PMI_SIZE",
                           .rank = "PMI_RANK",
                           .local_size = "MPI_LOCALNRANKS",
                           .local_rank = "MPI_LOCALRANKID",
                           .one_per_node = "mpiexec -ppn 1"};

}  // namespace

std::optional<FamilyFacts> read_flux(const ClusterView& view) { return read_tasks(view, kFlux); }

std::optional<FamilyFacts> read_pals(const ClusterView& view) {
    if (text_of(view, kPals.rank) == nullptr) return std::nullopt;
    if (auto facts = read_tasks(view, kPals)) return facts;
    // Started without PMI, a task has a number of many.
    FamilyFacts facts;
    if (const auto number = number_of(view, kPals.node_rank, 0))
        claim(facts, Fact::node_rank, std::to_string(*number), std::string(kPals.node_rank));
    facts.ways_out[Fact::nnodes] =
        "PMI_SIZE is not set, so give --nnodes and --master-addr, or --standalone for a job of its own in "
        "each "
        "task";
    return facts;
}

std::optional<FamilyFacts> read_mvapich(const ClusterView& view) { return read_tasks(view, kMvapich); }

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

std::optional<FamilyFacts> read_horovod(const ClusterView& view) { return read_tasks(view, kHorovod); }

std::optional<FamilyFacts> read_hydra(const ClusterView& view) {
    return first_of(view, {kHydra.local_size, "HYDI_CONTROL_FD"}) ? read_tasks(view, kHydra) : std::nullopt;
}

std::optional<FamilyFacts> read_bare_pmi(const ClusterView& view) { return read_tasks(view, kHydra); }

}  // namespace ddprun::inline launch
