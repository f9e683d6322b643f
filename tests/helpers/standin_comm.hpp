// A communicator of NCCL's stand-in: its life, and how operations get into streams. It keeps to NCCL's rules
// more strictly than NCCL: two threads inside one, or a call of one that has ended, end the process.
//
// It is a blocking one: calls that need other ranks wait for them. A communicator may be aborted while a
// thread is inside and waits so, which makes that return, but not while a thread is inside for anything else.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

#include "collectives/nccl/cuda_driver.hpp"
#include "tests/helpers/standin_hub.hpp"
#include "tests/helpers/standin_reduce.hpp"

struct ddprun::NcclOpaque {
    int rank = 0;
    int ranks = 0;
    ddprun::standin::HubLink* link = nullptr;
    std::atomic<int> inside{0};
    std::atomic<bool> waiting{false};  // in an operation's call
    std::atomic<bool> lost{false};
    std::atomic<bool> async_error{false};
    std::atomic<bool> aborted{false};
    std::atomic<bool> gone{false};
    bool connected = false;
    int operations = 0;
    std::map<int, ddprun::standin::Scaling> scalings;
    // Operations of all streams run in the order of their calls.
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t called = 0;
    std::uint64_t ran = 0;
    int running = 0;
};

namespace ddprun {
namespace standin {

using Comm = NcclOpaque;

// One thread at a time.
class Inside {
  public:
    explicit Inside(Comm& comm);
    ~Inside() { --comm_.inside; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

  private:
    Comm& comm_;
};

// Ends an operation at once: from then on it touches no memory.
struct Aborted {};
[[noreturn]] void wait_for_abort(Comm& comm);

// An operation: what it does to the data, with the faults around it.
NcclResult operate(Comm* comm, CudaStream stream, std::function<void(Comm&)> work);

}  // namespace standin
}  // namespace ddprun
