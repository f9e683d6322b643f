// A Family is one kind of scheduler, launcher or platform, and FamilyFacts is what it says of this process's
// job. Plain values, and the table of those that are known (family_table.cpp): most are a row of one of three
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

// A longer file that a scheduler names counts as one that cannot be read.
inline constexpr std::size_t kMaxClusterFile = 4 * 1024 * 1024;

// A ClusterView is what says on this machine which job it is in: the environment, its own names, and files
// that schedulers name.
struct ClusterView {
    Environment environment;
    std::string host_name;
    std::vector<std::string> addresses;        // numeric, in the system's order, without those of loopback
    std::map<std::string, std::string> files;  // path -> text; what is not in it could not be read
};

enum class Fact { nnodes, node_rank, master_addr, master_port, workers, own_name, job_id, deadline };
inline constexpr int kFacts = static_cast<int>(Fact::deadline) + 1;

// They stand from the strongest to the weakest.
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
    // The conflict is a variable that holds no such number: nobody else's word stands for it.
    bool is_malformed = false;
    // They say how the user can tell what the family cannot, and stand behind "… is not told".
    std::map<Fact, std::string> ways_out;
    std::string start_others;  // for an allocation: by which words ddprun is started on all of its hosts
    // It names the remote shell by which one ddprun reaches all of them (remote_shell.hpp); empty: none is
    // known.
    std::string reached_by;
    bool reached_from_outside = false;  // by that also from a machine that is none of them
    // This process's children are none of the job's processes: its own machine is reached as the others are.
    bool is_outside = false;
    // Other nodes may call node 0 at another address of its own than it knows itself by.
    bool many_addresses = false;
    bool must_be_listed = false;  // an allocation of one host may be another one than this machine
};

// The first shape: a platform that tells each node its number, how many there are and where they meet. The
// members are names of variables; one that is empty is not told.
struct ToldNames {
    std::string_view nodes;  // empty: the list says how many
    std::string_view number;
    std::string_view address = {};  // of node 0
    std::string_view list = {};     // of all, with that of node 0 first
    std::string_view workers = {};
    std::array<std::string_view, 2> job_ids = {};  // the first that is set counts
    std::string_view job_name = {};                // stands in front of the id
};

// The second shape: a process launcher of MPI's kind, by whose variables its tasks know each other. The
// number of nodes is told, or follows where each of them has one task, or all tasks are here; where it does
// not, that is left open.
struct TaskNames {
    std::string_view size;
    std::string_view rank;
    std::string_view local_size = {};
    std::string_view local_rank = {};
    std::string_view nodes = {};
    // Set where nodes have numbers of their own; else tasks that are alone on their node give theirs.
    std::string_view node_rank = {};
    std::string_view host = {};  // what the launcher calls this machine
    std::string_view job_id = {};
    std::string_view job_name = {};  // stands in front of the id
    std::string_view one_per_node = {};
};

// The third shape: a batch system that starts one script and names a file with a word for each slot of the
// job's hosts.
struct HostFileNames {
    std::string_view job;
    std::string_view file;
    std::string_view count;  // of nodes; may be empty
    std::string_view job_name;
    std::string_view start_others;
    std::string_view reached_by;
};

// Returns nothing where there is no sign of the family.
using FamilyReader = std::optional<FamilyFacts> (*)(const ClusterView& view);

struct Family {
    std::string_view name;   // --scheduler's
    std::string_view title;  // "a Slurm step"
    Belief belief;
    std::variant<ToldNames, TaskNames, HostFileNames, FamilyReader> reader;
    std::string_view signs;  // the variables that are its signs, for a message
    // These variables, between blanks and with an asterisk all that begin so, speak of one step, one process
    // or one host, and go to no other host.
    std::string_view bound = {};
    // The variables with the path of a file that the reader asks for; "NAME=PATH" is a file that is there
    // where NAME is set.
    std::string_view files = {};
};

// Returns all of them, the strongest first; of one belief the innermost first.
std::span<const Family> families();

std::optional<FamilyFacts> read_family(const Family& family, const ClusterView& view);

// Returns the paths of the files that a reader may ask for.
std::vector<std::string> cluster_files(const Environment& environment);

bool is_bound_to_step(std::string_view name);

// Says whether the name is one of the patterns, between blanks; one that ends with an asterisk stands for all
// that begin so.
bool matches_pattern(std::string_view name, std::string_view patterns);

std::vector<std::string> names_of(const std::vector<ListedHost>& hosts);

// Returns the hosts of Slurm's allocation, where nodes are numbered by them: agents that come from several
// srun calls have steps, and lists of these, of their own. This machine is in it by its name; where that is
// not there, by what Slurm calls the node, a variable that mpirun may have brought from another one.
HostList slurm_host_list(const ClusterView& view);

// Turns what a reader has found, where it names hosts that are none, into a conflict, without the list and
// the place. A name becomes an argument of a remote shell or of a scheduler's program, which could take it
// for anything else.
void refuse_false_names(const ClusterView& view, FamilyFacts& facts);

}  // namespace launch
}  // namespace ddprun
