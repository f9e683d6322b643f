// The table of all schedulers, launchers and platforms that are known. A new one is a row here, and its
// environments in the tests.
#include <fmt/core.h>

#include <algorithm>

#include "launcher/cluster/family.hpp"
#include "launcher/cluster/readers.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMaxFalseNameShown = 80;

constexpr Belief kTask = Belief::task_launcher, kPlatform = Belief::platform, kBatch = Belief::allocation;

// clang-format off
constexpr Family kFamilies[] = {
    // mpirun starts its helpers on other nodes by srun, and what these start inherits the helpers' step; so
    // that is last.
    {"flux", "a Flux job", kTask,
     TaskNames{.size = "FLUX_JOB_SIZE", .rank = "FLUX_TASK_RANK", .local_rank = "FLUX_TASK_LOCAL_ID",
               .nodes = "FLUX_JOB_NNODES", .job_id = "FLUX_JOB_ID", .job_name = "flux",
               .one_per_node = "flux run --tasks-per-node=1"},
     "FLUX_JOB_SIZE", "FLUX_*"},
    {"pals", "a PALS job", kTask, read_pals, "PALS_RANKID", "PALS_*"},
    {"openmpi", "an Open MPI job", kTask, read_open_mpi, "OMPI_COMM_WORLD_SIZE", "OMPI_* PMIX_* PRTE_*"},
    {"mvapich", "an MVAPICH job", kTask,
     TaskNames{.size = "MV2_COMM_WORLD_SIZE", .rank = "MV2_COMM_WORLD_RANK",
               .local_size = "MV2_COMM_WORLD_LOCAL_SIZE", .local_rank = "MV2_COMM_WORLD_LOCAL_RANK",
               .one_per_node = "mpiexec -ppn 1"},
     "MV2_COMM_WORLD_SIZE"},
    {"jsrun", "a jsrun job", kTask, read_jsrun, "JSM_NAMESPACE_SIZE", "JSM_*"},
    {"horovod", "a horovodrun job", kTask,
     TaskNames{.size = "HOROVOD_SIZE", .rank = "HOROVOD_RANK", .local_size = "HOROVOD_LOCAL_SIZE",
               .local_rank = "HOROVOD_LOCAL_RANK", .nodes = "HOROVOD_CROSS_SIZE",
               .node_rank = "HOROVOD_CROSS_RANK", .one_per_node = "horovodrun -H HOST:1,…"},
     "HOROVOD_SIZE"},
    {"hydra", "an MPI job", kTask, read_hydra, "PMI_SIZE with MPI_LOCALNRANKS",
     "MPI_LOCAL* HYDRA_* HYDI_*"},
    {"slurm", "a Slurm step", kTask, read_slurm_step, "SLURM_STEP_NUM_NODES",
     "SLURM_STEP* SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_TASK_PID SLURM_GTIDS SLURM_CPU_BIND* "
     "SLURM_MEM_BIND* SLURM_TOPOLOGY_ADDR* SLURM_LAUNCH_NODE_IPADDR SLURM_SRUN_COMM_* SLURMD_* SRUN_*"},
    {"lsf", "tasks of blaunch", kTask, read_blaunch, "LSF_PM_TASKID"},
    {"hydra", "an MPI job", kTask, kHydra, "PMI_SIZE", "PMI_*"},

    {"lws", "a LeaderWorkerSet", kPlatform,
     ToldNames{.nodes = "LWS_GROUP_SIZE", .number = "LWS_WORKER_INDEX", .address = "LWS_LEADER_ADDRESS",
               .job_ids = {"LWS_LEADER_ADDRESS"}, .job_name = "lws"},
     "LWS_GROUP_SIZE"},
    {"lepton", "a Lepton job", kPlatform, read_lepton, "LEPTON_JOB_TOTAL_WORKERS"},
    {"sagemaker", "a SageMaker job", kPlatform, read_sage_maker, "SM_HOSTS", {},
     "TRAINING_JOB_NAME=/opt/ml/input/config/resourceconfig.json"},
    {"skypilot", "a SkyPilot task", kPlatform,
     ToldNames{.nodes = "SKYPILOT_NUM_NODES", .number = "SKYPILOT_NODE_RANK", .list = "SKYPILOT_NODE_IPS",
               .workers = "SKYPILOT_NUM_GPUS_PER_NODE", .job_ids = {"SKYPILOT_TASK_ID"},
               .job_name = "skypilot"},
     "SKYPILOT_NUM_NODES"},
    {"dstack", "a dstack run", kPlatform,
     ToldNames{.nodes = "DSTACK_NODES_NUM", .number = "DSTACK_NODE_RANK", .address = "DSTACK_MASTER_NODE_IP",
               .workers = "DSTACK_GPUS_PER_NODE", .job_ids = {"DSTACK_RUN_ID", "DSTACK_RUN_NAME"},
               .job_name = "dstack"},
     "DSTACK_NODES_NUM"},
    {"awsbatch", "an AWS Batch job", kPlatform, read_aws_batch, "AWS_BATCH_JOB_NUM_NODES"},
    {"azureml", "an Azure ML job", kPlatform, read_azure_ml, "AZUREML_EXPERIMENT_ID with NODE_RANK"},
    {"volcano", "a Volcano job", kPlatform, read_volcano, "VC_TASK_INDEX"},
    {"kubernetes", "an indexed pod", kPlatform, read_indexed_pod, "JOB_COMPLETION_INDEX", {},
     "JOB_COMPLETION_INDEX=/etc/hosts"},
    {"tpu", "a TPU slice", kPlatform, read_tpu, "TPU_WORKER_HOSTNAMES"},
    {"vertex", "a Vertex AI job", kPlatform, read_cluster_spec, "CLUSTER_SPEC"},

    {"env", "a job told by MASTER_ADDR, RANK and WORLD_SIZE", Belief::bare, read_bare_master,
     "MASTER_ADDR, RANK and WORLD_SIZE"},
    {"jax", "a job of JAX processes", Belief::bare, read_jax, "JAX_NUM_PROCESSES"},

    {"slurm", "a Slurm allocation", kBatch, read_slurm_job, "SLURM_JOB_ID",
     "SLURM_CPUS_ON_NODE SLURM_GPUS_ON_NODE SLURM_JOB_GPUS"},
    // pbsdsh gives its tasks no standard input, by which a relay is told what to do.
    {"pbs", "a PBS job", kBatch, read_pbs, "PBS_JOBID", "PBS_NODENUM", "PBS_NODEFILE"},
    {"lsf", "an LSF job", kBatch, read_lsf, "LSB_JOBID", {}, "LSB_DJOB_HOSTFILE"},
    {"sge", "an SGE job", kBatch, read_sge, "SGE_ROOT, ARC, PE_HOSTFILE and JOB_ID", {},
     "PE_HOSTFILE"},
    {"cobalt", "a Cobalt job", kBatch,
     HostFileNames{"COBALT_JOBID", "COBALT_NODEFILE", {}, "cobalt", "mpiexec --ppn 1", "ssh"},
     "COBALT_JOBID", {}, "COBALT_NODEFILE"},
    {"oar", "an OAR job", kBatch, HostFileNames{"OAR_JOB_ID", "OAR_NODEFILE", {}, "oar", "oarsh", "oarsh"},
     "OAR_JOB_ID", {}, "OAR_NODEFILE"},
    {"loadleveler", "a LoadLeveler job", kBatch,
     HostFileNames{"LOADL_STEP_ID", "LOADL_HOSTFILE", {}, "loadleveler", "poe", "ssh"},
     "LOADL_STEP_ID", {}, "LOADL_HOSTFILE"},
    {"kubernetes", "the launcher's pod of an MPIJob", kBatch, read_mpi_operator, "K_MPI_JOB_ROLE", {},
     "HYDRA_HOST_FILE I_MPI_HYDRA_HOST_FILE OMPI_MCA_orte_default_hostfile"},
};
// clang-format on

template <class... Cases>
struct ByShape : Cases... {
    using Cases::operator()...;
};
template <class... Cases>
ByShape(Cases...) -> ByShape<Cases...>;  // clang 14 does not deduce it

}  // namespace

std::span<const Family> families() { return kFamilies; }

std::optional<FamilyFacts> read_family(const Family& family, const ClusterView& view) {
    return std::visit(ByShape{[&view](const ToldNames& names) { return read_told(view, names); },
                              [&view](const TaskNames& names) { return read_tasks(view, names); },
                              [&view](const HostFileNames& names) { return read_host_file(view, names); },
                              [&view](FamilyReader read) { return read(view); }},
                      family.reader);
}

std::vector<std::string> cluster_files(const Environment& environment) {
    std::vector<std::string> paths;
    for (const Family& family : kFamilies) {
        for (const std::string_view file : split_at(family.files, ' ')) {
            const auto equals = file.find('=');
            const std::string* text = find_variable(environment, file.substr(0, equals));
            if (text == nullptr) continue;
            if (equals != file.npos) paths.emplace_back(file.substr(equals + 1));
            if (equals == file.npos && !text->empty()) paths.push_back(*text);
        }
    }
    return paths;
}

bool matches_pattern(std::string_view name, std::string_view patterns) {
    const auto all = split_at(patterns, ' ');
    return !name.empty() && std::any_of(all.begin(), all.end(), [name](std::string_view pattern) {
        return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1))
                                      : name == pattern;
    });
}

bool is_bound_to_step(std::string_view name) {
    return std::any_of(std::begin(kFamilies), std::end(kFamilies),
                       [name](const Family& family) { return matches_pattern(name, family.bound); });
}

std::vector<std::string> names_of(const std::vector<ListedHost>& hosts) {
    std::vector<std::string> names;
    names.reserve(hosts.size());
    for (const ListedHost& host : hosts) names.push_back(host.name);
    return names;
}

namespace {

// Returns of a source that names a file where the word first stands there: "PBS_NODEFILE=/tmp/nodes:7".
std::string place_in(const ClusterView& view, const std::string& source, const std::string& word) {
    const std::string* text = named_file(view, source);
    if (text == nullptr) return source;
    std::size_t line = 0;
    for (const std::string_view one : lines_of(*text)) {
        ++line;
        const auto words = words_between_blanks(one);
        if (std::find(words.begin(), words.end(), word) != words.end()) break;
    }
    return fmt::format("{}={}:{}", source, harmless_line(*text_of(view, source)), line);
}

}  // namespace

void refuse_false_names(const ClusterView& view, FamilyFacts& facts) {
    const auto refuse = [&](const std::string& source, const std::string& name) {
        facts.conflict = fmt::format("{}: '{}' is no name of a host", place_in(view, source, name),
                                     harmless_line(name, kMaxFalseNameShown));
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

}  // namespace launch
}  // namespace ddprun
