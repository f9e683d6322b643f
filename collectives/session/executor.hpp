// Executor: carries out a communicator's operations in the order in which they were asked for, on the
// caller's thread or beside it.
//
// Operations that were started go to a thread of the executor's own, made when the first is started; those
// that are run are carried out by the caller, after all that were started before. So programs that start
// nothing pay for no thread, and run() costs nothing above the backend. A backend on a device starts them by
// itself.
//
// run() and start() are for one thread at a time; the backend is never used by two.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/call/backend.hpp"
#include "collectives/call/work_state.hpp"
#include "collectives/work.hpp"

namespace ddprun::inline detail {

// Started operations that may wait for their turn; who starts more waits.
inline constexpr std::size_t kMaxStarted = 4096;

class Executor {
  public:
    Executor(std::unique_ptr<Backend> backend, int world_size)
        : backend_(std::move(backend)), world_size_(world_size) {}
    // Waits for what was started, then lets the backend leave.
    ~Executor();

    // Returns when the task has been carried out. Throws what the backend throws.
    void run(const Task& task);
    // The same, of memory.
    SharedMemory allocate(std::size_t bytes);
    // Throws nothing of the operation itself: its Work does. Refuses a stream where there is no device.
    Work start(const Task& task);

    // Waits for what was started, then lets the backend leave; see Backend::leave(). Aborts if what was
    // started has not ended by the deadline.
    std::vector<int> leave(Deadline deadline);

    // Of the backend; any thread.
    void abort(const std::string& reason) { backend_->abort(reason); }
    bool ended() const { return backend_->ended(); }
    std::optional<Verdict> verdict() const { return backend_->verdict(); }
    // For tests.
    Backend& backend() { return *backend_; }

  private:
    struct Started {
        Task task;
        std::shared_ptr<ThreadWorkState> state;
    };

    void await_started();
    void carry_out(const Task& task);
    void serve();

    std::unique_ptr<Backend> backend_;
    int world_size_;
    // Inputs of premul_sum, multiplied, where no output has room for them. Kept between calls.
    std::vector<std::byte> scaled_;
    std::atomic<std::size_t> open_{0};  // started and not ended
    std::mutex mutex_;                  // guards what follows
    std::condition_variable changed_;
    std::deque<Started> started_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace ddprun::inline detail
