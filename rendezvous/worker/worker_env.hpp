// WorkerIdentity is what the variables of a worker's environment say: the launcher writes them, and the
// collectives library reads them as a WorkerPlace. Pure: the environment comes in and goes out as values.
//
// Written (torchrun's names and texts, so that its programs run unchanged):
//   RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_NAME ROLE_RANK
//   ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS
//   TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE=True TORCH_NCCL_ASYNC_ERROR_HANDLING (kept if set, else
//   1; not its name before PyTorch 2.2, NCCL_ASYNC_ERROR_HANDLING, of which newer ones warn on every rank)
// and our own:
//   DDPRUN_RUN_ID          unique for each launch; marks every process of the job
//   DDPRUN_START_TIME      when the job was first started, in seconds since 1970: the same on all ranks, in
//                          all rounds
//   DDPRUN_ROUND           the round's number
//   DDPRUN_RESTART_REASON  from the second round on
//   DDPRUN_MASTER_ADDR     node 0's address, also where MASTER_ADDR and MASTER_PORT are those of a door of
//                          this node's own agent, through which the worker reaches node 0's store
//   DDPRUN_NODE_ADDR       this node's address, as the other nodes reach it (translated on the way, perhaps);
//                          loopback where there are none; not set where it is not known
//   DDPRUN_MESH_KEY        what the collectives' ranks prove to each other that they have, 64 hexadecimal
//                          digits: made for the round, of the job's secret; without one, on a single node, at
//                          random; else not set
//   DDPRUN_LIFE            see life_table.hpp, where the worker has a slot
// Processes of the same user can read a worker's environment in /proc, and with it the key.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace base {

// Environment maps names of variables to values, ordered, so that what is printed and tested has one order.
using Environment = std::map<std::string, std::string>;

inline constexpr char kMeshKeyVariable[] = "DDPRUN_MESH_KEY";

// Returns the variable's value; null if it is not set.
const std::string* find_variable(const Environment& environment, std::string_view name);

Environment current_environment();

// WorkerIdentity is what distinguishes one worker of one round from the others.
struct WorkerIdentity {
    int rank = 0;
    int local_rank = 0;
    int world_size = 1;
    int local_world_size = 1;
    int group_rank = 0;        // the node's number in the round
    int group_world_size = 1;  // nodes in the round
    std::string role = "default";
    int role_rank = 0;                      // number among the workers of the same role
    int role_world_size = 1;                // workers of the same role
    std::string master_addr = "127.0.0.1";  // the store, as the worker reaches it
    std::uint16_t master_port = 0;
    std::string host_addr = "127.0.0.1";  // node 0's
    std::string node_addr;                // of the worker's node; empty: not known
    std::string mesh_key;                 // empty: none
    std::string run_id = "none";          // what the user gave as --rdzv-id
    std::string job_id;                   // unique for each launch
    std::int64_t start_unix_s = 0;        // when the job was first started, in seconds since 1970
    int round = 0;
    int restart_count = 0;
    int max_restarts = 0;
    std::string restart_reason;  // why there is a round after the first; empty: none
    std::string life;            // the worker's place in the agent's LifeTable; empty: none
};

// Returns `environment`, the parent's, with the identity's variables set in it.
Environment worker_environment(Environment environment, const WorkerIdentity& identity);

// WorkerPlace says where a worker finds the others, as read from the environment of torchrun's kind, Open MPI
// or Slurm.
struct WorkerPlace {
    int rank = 0;
    int world_size = 1;
    int local_rank = 0;
    int local_world_size = 1;
    bool is_local_size_told = false;
    std::string master_addr;
    std::uint16_t master_port = 0;
    bool agent_hosts_store = false;  // else rank 0 must host the store at master_addr:master_port
    std::string meeting_file;        // mpirun's, for ranks of one host; then there is no master
    // mpirun_addresses: those of mpirun's machine, for ranks of several hosts; the master is at one of them
    // (find_mpirun). Else empty.
    std::vector<std::string> mpirun_addresses;
    std::string run_id = "none";  // TORCHELASTIC_RUN_ID
    int restart_count = 0;        // keeps a stale worker out of a newer round
    // host_addr and node_addr: DDPRUN_MASTER_ADDR and DDPRUN_NODE_ADDR; empty where they are not set, or make
    // no sense.
    std::string host_addr;
    std::string node_addr;
};

// Reads, in this order: RANK and WORLD_SIZE (ddprun, torchrun, or set by hand), OMPI_COMM_WORLD_* (Open MPI's
// mpirun), PMI_RANK and PMI_SIZE (MPICH's and Intel's), SLURM_PROCID and SLURM_NTASKS (srun). Without any of
// them: one rank alone.
//
// Without MASTER_ADDR and MASTER_PORT, ranks under srun meet at the step's first node. Under Open MPI's
// mpirun they meet by a file in the job's own folder on one host, at mpirun's machine on several. Throws
// system_error with Errc::malformed that names the variable which is missing or wrong (for example
// MASTER_ADDR with two ranks).
WorkerPlace read_worker_place(const Environment& environment);

}  // namespace base
}  // namespace ddprun
