// What one kind of scheduler, launcher or platform says of this process's job. Plain values.
//
// A reader looks at the variables of its own family only, and neither mixes nor judges: what counts is decided by
// cluster_table.hpp.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cluster/cluster_view.hpp"

namespace ddprun::inline launch {

enum class Fact { nnodes, node_rank, master_addr, master_port, workers, own_name, job_id, deadline };
inline constexpr int kFacts = static_cast<int>(Fact::deadline) + 1;

// From the strongest to the weakest.
enum class Belief {
    command_line,
    own_variable,       // DDPRUN_NNODES
    torchrun_variable,  // PET_NNODES
    config_file,
    task_launcher,  // started this process, perhaps as one of several
    platform,       // an operator or a cloud that tells each node its number
    bare,           // MASTER_ADDR, RANK and WORLD_SIZE, from wherever
    allocation,     // what a scheduler has given to the job
    assumed,
};

struct Claim {
    std::string value;
    std::string source;  // the variable, the option
    Belief belief = Belief::assumed;
};

struct ListedHost {
    std::string name;
    int slots = 0;  // 0: not told
    int gpus = 0;   // that a step there has to ask for to get all of the job's; 0: it gets them

    bool operator==(const ListedHost&) const = default;
};

// The processes that a task launcher has started.
struct Tasks {
    int count = 1;
    std::optional<int> task;         // this one's number …
    std::optional<int> local_task;   // … and that on its node
    std::optional<int> local_count;  // tasks on this node
    std::optional<int> nodes;
    std::string evidence;      // "SLURM_STEP_NUM_TASKS=2"
    std::string one_per_node;  // by which words the launcher starts one task on each node
};

struct FamilyFacts {
    std::map<Fact, Claim> claims;
    std::map<Fact, Claim> rivals;   // the family's own, with other values
    std::vector<ListedHost> hosts;  // in the order of the node numbers
    std::string hosts_source;
    std::optional<Tasks> tasks;
    bool fits = true;      // no sign that these variables came down from another machine
    std::string conflict;  // in one line: what of it contradicts itself or this machine
    // What the family cannot tell, and how the user can; goes behind "… is not told".
    std::map<Fact, std::string> ways_out;
    std::string start_others;  // for an allocation: by which words ddprun is started on all of its hosts
    // Likewise: the remote shell by which one ddprun reaches all of them (remote_shell.hpp); empty: there is none that is
    // known to.
    std::string reached_by;
    bool reached_from_outside = false;  // by that also from a machine that is none of them
    // What this process starts is none of the job's processes: its own machine is reached as the others are.
    bool is_outside = false;
    bool many_addresses =
        false;  // other nodes may call node 0 at another address of its own than it knows itself by
    bool must_be_listed = false;  // an allocation of one host may be another one than this machine
};

struct Family {
    std::string_view name;   // --scheduler's
    std::string_view title;  // "a Slurm step"
    Belief belief;
    std::optional<FamilyFacts> (*read)(const ClusterView& view);  // nothing: no sign of it
    std::string_view signs;  // the variables that are its signs, for a message
};

// All of them, the strongest first; of one belief the innermost first.
std::span<const Family> families();

void claim(FamilyFacts& facts, Fact fact, std::string value, std::string source);
std::vector<std::string> names_of(const std::vector<ListedHost>& hosts);
// What a reader has found, where it names hosts that are none: a conflict, without the list and the place. A name becomes an
// argument of a remote shell or of a scheduler's program, which could take it for anything else.
void refuse_false_names(FamilyFacts& facts);

// --- the readers, each in the file of its name

std::optional<FamilyFacts> read_flux(const ClusterView& view);
std::optional<FamilyFacts> read_pals(const ClusterView& view);
std::optional<FamilyFacts> read_open_mpi(const ClusterView& view);
std::optional<FamilyFacts> read_mvapich(const ClusterView& view);
std::optional<FamilyFacts> read_jsrun(const ClusterView& view);
std::optional<FamilyFacts> read_horovod(const ClusterView& view);
std::optional<FamilyFacts> read_hydra(const ClusterView& view);
std::optional<FamilyFacts> read_slurm_step(const ClusterView& view);
std::optional<FamilyFacts> read_blaunch(const ClusterView& view);
std::optional<FamilyFacts> read_bare_pmi(const ClusterView& view);

std::optional<FamilyFacts> read_leader_worker_set(const ClusterView& view);
std::optional<FamilyFacts> read_lepton(const ClusterView& view);
std::optional<FamilyFacts> read_sky_pilot(const ClusterView& view);
std::optional<FamilyFacts> read_dstack(const ClusterView& view);
std::optional<FamilyFacts> read_sage_maker(const ClusterView& view);
std::optional<FamilyFacts> read_aws_batch(const ClusterView& view);
std::optional<FamilyFacts> read_azure_ml(const ClusterView& view);
std::optional<FamilyFacts> read_volcano(const ClusterView& view);
std::optional<FamilyFacts> read_indexed_pod(const ClusterView& view);
std::optional<FamilyFacts> read_tpu(const ClusterView& view);
std::optional<FamilyFacts> read_cluster_spec(const ClusterView& view);

std::optional<FamilyFacts> read_bare_master(const ClusterView& view);
std::optional<FamilyFacts> read_jax(const ClusterView& view);

std::optional<FamilyFacts> read_slurm_job(const ClusterView& view);
std::optional<FamilyFacts> read_pbs(const ClusterView& view);
std::optional<FamilyFacts> read_lsf(const ClusterView& view);
std::optional<FamilyFacts> read_sge(const ClusterView& view);
std::optional<FamilyFacts> read_cobalt(const ClusterView& view);
std::optional<FamilyFacts> read_oar(const ClusterView& view);
std::optional<FamilyFacts> read_load_leveler(const ClusterView& view);
std::optional<FamilyFacts> read_mpi_operator(const ClusterView& view);

}  // namespace ddprun::inline launch
