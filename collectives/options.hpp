// The options that a communicator's maker chooses. Values; used by the code that makes a Communicator, and
// below it.
#pragma once

#include <chrono>

#pragma GCC visibility push(default)
namespace ddprun {

// A backend carries out the operations. Buffers are in host memory with `cpu`, and in the device's with
// `nccl`.
enum class BackendChoice {
    automatic,  // as DDPRUN_BACKEND says: cpu or nccl; cpu where it is not set
    cpu,
    nccl,
};

struct CommunicatorOptions {
    // One operation, from its call to its return.
    std::chrono::milliseconds operation_timeout = std::chrono::minutes(5);
    // Making the communicator: finding the store, waiting for all ranks, connecting.
    std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
    // How long rank 0 waits in its destructor for the others to leave, where it hosts the store (mpirun,
    // srun, tcp://); and finalize() of every rank, unless it is told otherwise.
    std::chrono::milliseconds leave_timeout = std::chrono::seconds(10);
    // Once an operation has taken this long, one of the waiting ranks writes a line about the ranks that have
    // not come to its standard error. 0: nothing is ever written.
    std::chrono::milliseconds notice_after{0};
    // The same on all ranks.
    BackendChoice backend = BackendChoice::automatic;
    // The CUDA device of this rank, among those the process sees; -1: DDPRUN_DEVICE, or else the local rank.
    int device = -1;
    // NCCL's reductions then go by rings, so that results are bitwise equal on all ranks, and from run to run
    // on the same machines; slower than what NCCL chooses by itself (by a quarter on 8 GPUs with NVSwitch).
    // The same on all ranks. Other backends are reproducible without it.
    bool reproducible = false;
};

}  // namespace ddprun
#pragma GCC visibility pop
