// place_worker() decides what one worker of one round is started with. Worker placement is pure but for a key
// at random. A worker's environment is made nowhere else; worker_env.hpp lists the variables that all ranks
// get.
//
// The environment is made in this order, the later over the earlier:
//   LaunchOptions::environment   what the launcher was started with, and which interface to use
//   WorkerPlan::additions        devices and threads of this local rank
//   LaunchOptions::rank_variables  of this rank
//   TORCHELASTIC_ERROR_FILE      where it may write why it failed; empty if it is not read
//   WorkerStation::added         by the features, as --local-cache and the watchdog
//   worker_env.hpp               its place in the round
//
// The functions below also find the ranks that an option names and the job does not have: a typing error that
// would otherwise go unnoticed.
#pragma once

#include <optional>
#include <string>

#include "launcher/agent/feature.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/process/process_runner.hpp"
#include "rendezvous/control/control_message.hpp"

namespace ddprun {
inline namespace launch {

// WorkerStation: what the node holds ready for one worker.
struct WorkerStation {
    std::string host;
    Endpoint store = {};         // where the worker finds it; without a port: LaunchOptions::master
    std::string host_addr = {};  // of node 0, as programs here reach it; empty: LaunchOptions::master's
    std::string address;         // of the node, see WorkerIdentity
    std::optional<SecretKey> mesh_key = std::nullopt;
    std::string life;                          // see WorkerIdentity
    std::string error_file;                    // empty: none
    RoundAdditions added = {};                 // by the features
    StreamTarget program_input = Stdio::null;  // LaunchOptions::read_program, for this worker
    StreamTarget standard_output = Stdio::null;
    StreamTarget standard_error = Stdio::null;
};

// Makes the key by which the workers of a round prove to each other that they belong to it. Every node
// derives it from the job's key. Without a job's key there is none, but a single node makes one at random.
// Throws as SecretKey::fresh() does.
std::optional<SecretKey> mesh_key_of(const LaunchOptions& options, const RoundReady& round);

// Returns what --program names for this rank, or else its entry of LaunchOptions::workers.
const WorkerPlan& plan_of_worker(const LaunchOptions& options, int rank, int local_rank);

// Returns the worker's program, with what --wrap puts in front of it.
std::vector<std::string> argv_of_worker(const LaunchOptions& options, const WrapPlace& place);

WorkerSpec place_worker(const LaunchOptions& options, const RoundReady& round, int local_rank,
                        const WorkerStation& station);

// Returns the rank of --tty by its local number; nothing if it is not on this node.
std::optional<int> local_rank_of_tty(const LaunchOptions& options, const RoundReady& round);

// Returns the first rank or range of --show, --tty, --stdin, --wrap and --program that goes beyond a job of
// so many workers; nothing if there is none. The text is one line that names flag, value and number. On
// several nodes the number is known only when all have joined.
std::optional<std::string> rank_beyond_job(const LaunchOptions& options, int world_size);

// Returns the same for the local ranks of --redirects, --tee, --local-ranks-filter and --wrap local=, for
// this node's workers.
std::optional<std::string> local_rank_beyond_node(const LaunchOptions& options);

}  // namespace launch
}  // namespace ddprun
