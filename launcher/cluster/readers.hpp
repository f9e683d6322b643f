// read_told, read_tasks and the other readers turn a family's variables into FamilyFacts; what they share
// stands first. Pure; for the sources of this folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cluster/family.hpp"
#include "launcher/cluster/host_list.hpp"

namespace ddprun {
inline namespace launch {

// Returns null for a variable that is not set, or empty, and for an empty name.
const std::string* text_of(const ClusterView& view, std::string_view variable);

// Reads a whole number of at least `lowest`; nothing for anything else.
std::optional<int> number_of(const ClusterView& view, std::string_view variable, int lowest);

// wrong_number: one line about a variable that is set, but not to such a number; empty: none.
std::string wrong_number(const ClusterView& view, std::string_view variable, int lowest);

// Says why a variable tells nothing: "X is not set", or "X=y is WANTED".
std::string lack_of(const ClusterView& view, std::string_view variable, std::string_view wanted);

// Named: the first of several variables that is set, and its text.
struct Named {
    std::string name;
    std::string text;
};
std::optional<Named> first_of(const ClusterView& view, const std::vector<std::string_view>& variables);

// Says whether a name or an address is this machine's: gpu07 and gpu07.example are one host.
bool is_own_name(const ClusterView& view, const std::string& name);

// Finds where this machine is in the list: by the name of its host, else by one of its addresses. Nothing
// where it is absent, or where several entries may be meant.
std::optional<int> own_position(const ClusterView& view, const std::vector<std::string>& hosts);

// --- what the readers share

// Claims a value, unless the fact has a claim already.
void claim(FamilyFacts& facts, Fact fact, std::string value, std::string_view source);
// Claims what the variable says, if it is set and valid; `before` goes in front of the text.
void claim_told(const ClusterView& view, FamilyFacts& facts, Fact fact, std::string_view variable,
                std::string_view before = {});
void claim_number(const ClusterView& view, FamilyFacts& facts, Fact fact, std::string_view variable,
                  int lowest);
// Notes the conflict, unless it is empty or another was noted before.
void refuse(FamilyFacts& facts, std::string conflict);
// Notes likewise a variable that is set, but not to such a number; take_number also reads the number.
void refuse_wrong_number(const ClusterView& view, FamilyFacts& facts, std::string_view variable, int lowest);
std::optional<int> take_number(const ClusterView& view, FamilyFacts& facts, std::string_view variable,
                               int lowest);
// Claims MASTER_ADDR and MASTER_PORT. A false port is refused where it is used.
void claim_master(const ClusterView& view, FamilyFacts& facts);

// Takes the hosts that the variable lists. A variable that is set, but lists none, becomes a conflict.
// Returns whether there are any hosts.
bool take_host_list(const ClusterView& view, FamilyFacts& facts, std::string_view variable);
// Claims how many listed hosts there are, and that they meet at the first.
void claim_listed(FamilyFacts& facts);
// Claims as claim_listed, and which host this machine is, as in a batch system's list.
void claim_listed_hosts(const ClusterView& view, FamilyFacts& facts);

// Returns the text of the file at the path that the variable holds. Null where the variable is not set, or
// the file could not be read.
const std::string* named_file(const ClusterView& view, std::string_view variable);

// Counts the words, one for each slot: returns the hosts in the order in which they come first, and how often
// each comes.
std::vector<ListedHost> count_repeats(const std::vector<std::string_view>& words);

// Returns one line where a variable counts other hosts than a list has. Empty: they agree, or one of them is
// absent.
std::string count_conflict(std::string_view variable, std::optional<int> count, std::string_view list,
                           const std::vector<ListedHost>& hosts);

// Returns LSF's hosts of the job in their order, and the slots of each. `source` becomes the variable that
// named them.
std::vector<ListedHost> read_lsf_hosts(const ClusterView& view, std::string& source);

// read_slurm_hosts and the functions below it serve both readers of Slurm's variables. The variables of the
// step and of the job are never mixed: in a step that is smaller than its job, SLURM_JOB_NODELIST still names
// the whole allocation.
//
// Takes the hosts that one of Slurm's lists names, with the tasks of each where `counts` tells them.
void read_slurm_hosts(const ClusterView& view, FamilyFacts& facts, const std::string& list,
                      const std::string& counts);
// Claims the job's id, perhaps with its step, and how often it was requeued: "slurm-4711.0-r1".
void claim_slurm_identity(const ClusterView& view, FamilyFacts& facts, bool with_step);
// Returns how many components the job has: 2 and more for a heterogeneous job.
int slurm_components(const ClusterView& view, FamilyFacts& facts);
// Claims when the job has to end, and how many GPUs it has here.
void claim_slurm_limits(const ClusterView& view, FamilyFacts& facts);

// --- the three shapes

std::optional<FamilyFacts> read_told(const ClusterView& view, const ToldNames& names);
std::optional<FamilyFacts> read_tasks(const ClusterView& view, const TaskNames& names);
std::optional<FamilyFacts> read_host_file(const ClusterView& view, const HostFileNames& names);

// kHydra: the names that Hydra gives MPI's processes. Slurm, Flux and PALS set them, too, beside their own.
inline constexpr TaskNames kHydra{.size = "PMI_SIZE",
                                  .rank = "PMI_RANK",
                                  .local_size = "MPI_LOCALNRANKS",
                                  .local_rank = "MPI_LOCALRANKID",
                                  .one_per_node = "mpiexec -ppn 1"};

// --- the odd ones: task_launchers.cpp

std::optional<FamilyFacts> read_pals(const ClusterView& view);
std::optional<FamilyFacts> read_open_mpi(const ClusterView& view);
std::optional<FamilyFacts> read_jsrun(const ClusterView& view);
std::optional<FamilyFacts> read_hydra(const ClusterView& view);
std::optional<FamilyFacts> read_slurm_step(const ClusterView& view);
std::optional<FamilyFacts> read_blaunch(const ClusterView& view);

// --- platforms.cpp

std::optional<FamilyFacts> read_lepton(const ClusterView& view);
std::optional<FamilyFacts> read_aws_batch(const ClusterView& view);
std::optional<FamilyFacts> read_azure_ml(const ClusterView& view);
std::optional<FamilyFacts> read_volcano(const ClusterView& view);
std::optional<FamilyFacts> read_indexed_pod(const ClusterView& view);
std::optional<FamilyFacts> read_tpu(const ClusterView& view);
std::optional<FamilyFacts> read_bare_master(const ClusterView& view);
std::optional<FamilyFacts> read_jax(const ClusterView& view);
std::optional<FamilyFacts> read_sage_maker(const ClusterView& view);
std::optional<FamilyFacts> read_cluster_spec(const ClusterView& view);

// --- allocations.cpp

std::optional<FamilyFacts> read_slurm_job(const ClusterView& view);
std::optional<FamilyFacts> read_pbs(const ClusterView& view);
std::optional<FamilyFacts> read_lsf(const ClusterView& view);
std::optional<FamilyFacts> read_sge(const ClusterView& view);
std::optional<FamilyFacts> read_mpi_operator(const ClusterView& view);

}  // namespace launch
}  // namespace ddprun
