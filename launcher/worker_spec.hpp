// WorkerSpec: the blueprint of one worker, complete and plain, so that it can be handed to whoever forks.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/worker_env.hpp"

namespace ddprun {

// Where a standard stream of a worker leads.
enum class Stdio {
    inherit,  // the launcher's own
    null,     // /dev/null
};

struct WorkerSpec {
    // The executable, looked up on the PATH of `environment` if it has no slash, and its arguments, passed on
    // byte for byte. Never empty.
    std::vector<std::string> argv;
    Environment environment;  // all of it: nothing else is inherited
    int rank = 0;
    int local_rank = 0;
    Stdio standard_input = Stdio::null;
    Stdio standard_output = Stdio::inherit;
    Stdio standard_error = Stdio::inherit;
    // SIGHUP was ignored when the launcher was entered (nohup): it stays ignored in the worker.
    bool ignore_hangup = false;
};

}  // namespace ddprun
