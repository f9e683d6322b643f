// WorkerSpec is the blueprint of one worker, complete and plain, so that it can be handed to the process that forks.
#pragma once

#include <csignal>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/codec/description.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

// Stdio says where a standard stream of a worker leads, if not to a given descriptor.
enum class Stdio {
    inherit,  // the launcher's own
    null,     // /dev/null
};
BOOST_DESCRIBE_ENUM(Stdio, inherit, null)

// GivenDescriptor is an open descriptor of this process that becomes a worker's stream. It stays the caller's, who keeps it
// open until the worker was started and closes it then. It is none of the numbers 0 to 2, which are the worker's own.
struct GivenDescriptor {
    int fd = -1;
    bool operator==(const GivenDescriptor&) const = default;
};
BOOST_DESCRIBE_STRUCT(GivenDescriptor, (), (fd))

using StreamTarget = std::variant<Stdio, GivenDescriptor>;

struct WorkerSpec {
    // The executable comes first, looked up on the PATH of `environment` if it has no slash; its arguments are passed on
    // byte for byte. Never empty.
    std::vector<std::string> argv;
    Environment environment;  // all of it: nothing else is inherited
    int rank = 0;
    int local_rank = 0;
    StreamTarget standard_input = Stdio::null;
    StreamTarget standard_output = Stdio::inherit;
    StreamTarget standard_error = Stdio::inherit;
    // SIGHUP was ignored when the launcher was entered (nohup): it stays ignored in the worker.
    bool ignore_hangup = false;
    // Its standard input, a terminal that nobody has, becomes the terminal of its session: Ctrl-C typed there
    // reaches it, and a debugger can hand it on to what it runs.
    bool takes_terminal = false;
    // It may run on these CPUs, ascending; empty: on those of the launcher.
    std::vector<int> cpus;
    // It is to have this NUMA node's memory as long as there is some; -1: no policy.
    int memory_node = -1;
    // The launcher was given this soft limit of descriptors; 0: it has that still.
    std::uint64_t open_files = 0;
    // It is sent this signal when the process that started it has ended; 0: none.
    int death_signal = SIGKILL;
};
BOOST_DESCRIBE_STRUCT(WorkerSpec, (),
                      (argv, environment, rank, local_rank, standard_input, standard_output, standard_error,
                       ignore_hangup, takes_terminal, cpus, memory_node, open_files, death_signal))

}  // namespace ddprun::inline launch
