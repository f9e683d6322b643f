// CommunicatorOptions: what the maker of a communicator chooses. Values; used by the code that makes a
// Communicator, and below it.
#pragma once

#include <chrono>

#pragma GCC visibility push(default)
namespace ddprun {

// BackendChoice: what carries out the operations. Buffers are in host memory with `cpu`, and in the device's
// with `nccl`.
enum class BackendChoice {
    automatic,  // as DDPRUN_BACKEND says: cpu or nccl; cpu where it is not set
    cpu,
    nccl,
};

struct CommunicatorOptions {
    // operation_timeout: the limit of one operation, from its turn to its end.
    std::chrono::milliseconds operation_timeout = std::chrono::minutes(5);
    // join_timeout: the limit for making the communicator: finding the store, waiting for all ranks,
    // connecting.
    std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
    // leave_timeout: how long rank 0 waits in its destructor for the other ranks to leave, where it hosts the
    // store (mpirun, srun, tcp://). Also the limit of finalize() on every rank, unless finalize() is given
    // another.
    std::chrono::milliseconds leave_timeout = std::chrono::seconds(10);
    // notice_after: once an operation has taken this long, one of the waiting ranks writes a line to its
    // standard error about the ranks that have not come. 0: no line.
    std::chrono::milliseconds notice_after{0};
    // backend: the same on all ranks.
    BackendChoice backend = BackendChoice::automatic;
    // device: the CUDA device of this rank, among those the process sees; -1: DDPRUN_DEVICE, or else the
    // local rank.
    int device = -1;
    // reproducible: lets NCCL reduce by rings, so that results are bitwise equal on all ranks, and from run
    // to run on the same machines. Slower than what NCCL chooses by itself (by a quarter on 8 GPUs with
    // NVSwitch). The same on all ranks. Other backends are reproducible without it.
    bool reproducible = false;
};

}  // namespace ddprun
#pragma GCC visibility pop
