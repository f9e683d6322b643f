#include "launcher/cluster/family.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::size_t kMaxFalseNameShown = 80;

// clang-format off
constexpr Family kFamilies[] = {
    // mpirun starts its helpers on other nodes by srun, and what these start inherits the helpers' step; so that is last.
    {"flux", "a Flux job", Belief::task_launcher, read_flux, "FLUX_JOB_SIZE"},
    {"pals", "a PALS job", Belief::task_launcher, read_pals, "PALS_RANKID"},
    {"openmpi", "an Open MPI job", Belief::task_launcher, read_open_mpi, "OMPI_COMM_WORLD_SIZE"},
    {"mvapich", "an MVAPICH job", Belief::task_launcher, read_mvapich, "MV2_COMM_WORLD_SIZE"},
    {"jsrun", "a jsrun job", Belief::task_launcher, read_jsrun, "JSM_NAMESPACE_SIZE"},
    {"horovod", "a horovodrun job", Belief::task_launcher, read_horovod, "HOROVOD_SIZE"},
    {"hydra", "an MPI job", Belief::task_launcher, read_hydra, "PMI_SIZE with MPI_LOCALNRANKS"},
    {"slurm", "a Slurm step", Belief::task_launcher, read_slurm_step, "SLURM_STEP_NUM_NODES"},
    {"lsf", "tasks of blaunch", Belief::task_launcher, read_blaunch, "LSF_PM_TASKID"},
    // Slurm, Flux and PALS set these beside their own.
    {"hydra", "an MPI job", Belief::task_launcher, read_bare_pmi, "PMI_SIZE"},

    {"lws", "a LeaderWorkerSet", Belief::platform, read_leader_worker_set, "LWS_GROUP_SIZE"},
    {"lepton", "a Lepton job", Belief::platform, read_lepton, "LEPTON_JOB_TOTAL_WORKERS"},
    {"sagemaker", "a SageMaker job", Belief::platform, read_sage_maker, "SM_HOSTS"},
    {"skypilot", "a SkyPilot task", Belief::platform, read_sky_pilot, "SKYPILOT_NUM_NODES"},
    {"dstack", "a dstack run", Belief::platform, read_dstack, "DSTACK_NODES_NUM"},
    {"awsbatch", "an AWS Batch job", Belief::platform, read_aws_batch, "AWS_BATCH_JOB_NUM_NODES"},
    {"azureml", "an Azure ML job", Belief::platform, read_azure_ml, "AZUREML_EXPERIMENT_ID with NODE_RANK"},
    {"volcano", "a Volcano job", Belief::platform, read_volcano, "VC_TASK_INDEX"},
    {"kubernetes", "an indexed pod", Belief::platform, read_indexed_pod, "JOB_COMPLETION_INDEX"},
    {"tpu", "a TPU slice", Belief::platform, read_tpu, "TPU_WORKER_HOSTNAMES"},
    {"vertex", "a Vertex AI job", Belief::platform, read_cluster_spec, "CLUSTER_SPEC"},

    {"env", "a job told by MASTER_ADDR, RANK and WORLD_SIZE", Belief::bare, read_bare_master,
     "MASTER_ADDR, RANK and WORLD_SIZE"},
    {"jax", "a job of JAX processes", Belief::bare, read_jax, "JAX_NUM_PROCESSES"},

    {"slurm", "a Slurm allocation", Belief::allocation, read_slurm_job, "SLURM_JOB_ID"},
    {"pbs", "a PBS job", Belief::allocation, read_pbs, "PBS_JOBID"},
    {"lsf", "an LSF job", Belief::allocation, read_lsf, "LSB_JOBID"},
    {"sge", "an SGE job", Belief::allocation, read_sge, "SGE_ROOT, ARC, PE_HOSTFILE and JOB_ID"},
    {"cobalt", "a Cobalt job", Belief::allocation, read_cobalt, "COBALT_JOBID"},
    {"oar", "an OAR job", Belief::allocation, read_oar, "OAR_JOB_ID"},
    {"loadleveler", "a LoadLeveler job", Belief::allocation, read_load_leveler, "LOADL_STEP_ID"},
    {"kubernetes", "the launcher's pod of an MPIJob", Belief::allocation, read_mpi_operator, "K_MPI_JOB_ROLE"},
};
// clang-format on

}  // namespace

std::span<const Family> families() { return kFamilies; }

void claim(FamilyFacts& facts, Fact fact, std::string value, std::string source) {
    facts.claims.try_emplace(fact, Claim{std::move(value), std::move(source), Belief::assumed});
}

std::vector<std::string> names_of(const std::vector<ListedHost>& hosts) {
    std::vector<std::string> names;
    names.reserve(hosts.size());
    for (const ListedHost& host : hosts) names.push_back(host.name);
    return names;
}

void refuse_false_names(FamilyFacts& facts) {
    const auto refuse = [&facts](const std::string& source, const std::string& name) {
        facts.conflict =
            fmt::format("{}: '{}' is no name of a host", source, harmless_line(name, kMaxFalseNameShown));
    };
    const auto wrong = std::find_if(facts.hosts.begin(), facts.hosts.end(),
                                    [](const ListedHost& host) { return !is_valid_host(host.name); });
    if (wrong != facts.hosts.end()) {
        refuse(facts.hosts_source, wrong->name);
        facts.hosts.clear();
        std::erase_if(facts.claims,
                      [&facts](const auto& claim) { return claim.second.source == facts.hosts_source; });
    }
    for (auto* claims : {&facts.claims, &facts.rivals}) {
        const auto place = claims->find(Fact::master_addr);
        if (place == claims->end() || is_valid_host(place->second.value)) continue;
        refuse(place->second.source, place->second.value);
        claims->erase(place);
    }
}

}  // namespace ddprun::inline launch
