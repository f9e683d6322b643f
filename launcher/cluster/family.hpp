// A Family is one kind of scheduler, launcher or platform, and FamilyFacts is what it says of this process's
// job. Plain values, and the table of the known families (family_table.cpp): most are a row of one of three
// shapes, the odd ones have a function.
//
// A reader looks at the variables of its own family only, and neither mixes nor judges: cluster_table.hpp
// decides what counts.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/cluster/host_list.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// kMaxClusterFile: bytes of a file that a scheduler names. A longer file counts as one that cannot be read.
inline constexpr std::size_t kMaxClusterFile = 4 * 1024 * 1024;

// A ClusterView is what can tell which job this process is in: the environment, the machine's names, and
// files that schedulers name.
struct ClusterView {
    Environment environment;
    std::string host_name;
    std::vector<std::string> addresses;        // numeric, in the system's order, without those of loopback
    std::map<std::string, std::string> files;  // path -> text; absent: the file could not be read
};

enum class Fact { nnodes, node_rank, master_addr, master_port, workers, own_name, job_id, deadline };
inline constexpr int kFacts = static_cast<int>(Fact::deadline) + 1;

// Belief ranks the sources of a value, from the strongest to the weakest.
enum class Belief {
    command_line,
    own_variable,       // DDPRUN_NNODES
    torchrun_variable,  // PET_NNODES
    config_file,
    task_launcher,  // started this process, perhaps as one of several
    platform,       // an operator or a cloud that tells each node its number
    bare,           // MASTER_ADDR, RANK and WORLD_SIZE, from any source
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
    int gpus = 0;   // how many a step there has to ask for to get all of the job's; 0: it gets them unasked

    bool operator==(const ListedHost&) const = default;
};

// Tasks are the processes that a task launcher has started.
struct Tasks {
    int count = 1;
    std::optional<int> task;         // this process's number …
    std::optional<int> local_task;   // … and its number on its node
    std::optional<int> local_count;  // tasks on this node
    std::optional<int> nodes;
    std::string evidence;      // "SLURM_STEP_NUM_TASKS=2"
    std::string one_per_node;  // the words by which the launcher starts one task on each node
};

struct FamilyFacts {
    std::map<Fact, Claim> claims;
    std::map<Fact, Claim> rivals;   // the family's own, with other values
    std::vector<ListedHost> hosts;  // in the order of the node numbers
    std::string hosts_source;
    std::optional<Tasks> tasks;
    bool fits = true;      // no sign that these variables came down from another machine
    std::string conflict;  // one line: where the facts contradict each other or this machine
    // is_malformed: the conflict is a variable without the number it should hold. No other family stands in
    // for it.
    bool is_malformed = false;
    // ways_out: how the user can tell a fact that the family cannot. Each text goes behind "… is not told".
    std::map<Fact, std::string> ways_out;
    std::string start_others;  // for an allocation: the words that start ddprun on all of its hosts
    // reached_by names the remote shell by which one ddprun reaches all hosts (remote_shell.hpp). Empty: none
    // is known.
    std::string reached_by;
    bool reached_from_outside = false;  // `reached_by` works from a machine outside the allocation, too
    // is_outside: children of this process do not belong to the job. The launcher reaches this machine by the
    // remote shell, as it does the others.
    bool is_outside = false;
    // many_addresses: other nodes may reach node 0 at another of its addresses than the one it knows.
    bool many_addresses = false;
    bool must_be_listed = false;  // the one host of an allocation may not be this machine
};

// ToldNames is the first shape: a platform that tells each node its number, how many there are and where they
// meet. The members are names of variables. An empty name: the platform does not tell that.
struct ToldNames {
    std::string_view nodes;  // empty: the list says how many
    std::string_view number;
    std::string_view address = {};  // of node 0
    std::string_view list = {};     // of all nodes' addresses, node 0's first
    std::string_view workers = {};
    std::array<std::string_view, 2> job_ids = {};  // the first variable that is set counts
    std::string_view job_name = {};                // stands in front of the id
};

// TaskNames is the second shape: a process launcher of MPI's kind, which tells each task its rank and the
// number of tasks. The members are names of variables. The number of nodes is told, or follows from tasks
// that are spread evenly; else it is left open.
struct TaskNames {
    std::string_view size;
    std::string_view rank;
    std::string_view local_size = {};
    std::string_view local_rank = {};
    std::string_view nodes = {};
    // node_rank: the variable with the node's number; empty: there is none. Where each node has one task, the
    // task's rank is the node's number, too.
    std::string_view node_rank = {};
    std::string_view host = {};  // what the launcher calls this machine
    std::string_view job_id = {};
    std::string_view job_name = {};  // stands in front of the id
    std::string_view one_per_node = {};
};

// HostFileNames is the third shape: a batch system that starts one script and names a file. The file has a
// word for each slot of the job's hosts.
struct HostFileNames {
    std::string_view job;
    std::string_view file;
    std::string_view count;  // of nodes; may be empty
    std::string_view job_name;
    std::string_view start_others;
    std::string_view reached_by;
};

// A FamilyReader returns nothing where there is no sign of its family.
using FamilyReader = std::optional<FamilyFacts> (*)(const ClusterView& view);

struct Family {
    std::string_view name;   // --scheduler's
    std::string_view title;  // "a Slurm step"
    Belief belief;
    std::variant<ToldNames, TaskNames, HostFileNames, FamilyReader> reader;
    std::string_view signs;  // the variables that show the family, for a message
    // bound: names of variables that speak of one step, process or host, and so go to no other host. Blanks
    // separate them, and an asterisk at the end stands for any rest.
    std::string_view bound = {};
    // files: variables that hold the path of a file that the reader asks for. "NAME=PATH" is a file at a
    // fixed path, which is read where NAME is set.
    std::string_view files = {};
};

// Returns all known families, the strongest belief first, and within a belief the innermost first.
std::span<const Family> families();

std::optional<FamilyFacts> read_family(const Family& family, const ClusterView& view);

// Returns the paths of the files that a reader may ask for.
std::vector<std::string> cluster_files(const Environment& environment);

bool is_bound_to_step(std::string_view name);

// Says whether the name matches one of the patterns, which blanks separate. An asterisk at a pattern's end
// stands for any rest.
bool matches_pattern(std::string_view name, std::string_view patterns);

std::vector<std::string> names_of(const std::vector<ListedHost>& hosts);

// Returns the hosts of Slurm's whole allocation, by which nodes are numbered. Agents of several srun calls
// are in several steps, each with a list of its own. The position is that of this machine's own name. Failing
// that, Slurm's name of the node counts, a variable that mpirun may have brought from another machine.
HostList slurm_host_list(const ClusterView& view);

// Turns false host names that a reader found into a conflict, and removes the list and the place. A name
// becomes an argument of a remote shell or of a scheduler's program, which could take it for something else.
void refuse_false_names(const ClusterView& view, FamilyFacts& facts);

}  // namespace launch
}  // namespace ddprun
