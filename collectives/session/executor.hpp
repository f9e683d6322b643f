// Executor: carries out a communicator's operations in the order in which they were asked for, on the
// caller's thread or beside it.
//
// Each operation takes a ticket when it is asked for, and its turn comes when all before it are through, so
// the backend is never used by two threads. The caller carries out what it runs. What is started goes to a
// free thread of the process's (run_beside), or to the thread that waits for it, where that comes first.
// Programs that start nothing therefore pay for no thread, and communicators where nothing goes on have none.
// A backend on a device starts operations by itself.
//
// Any thread, but for the destructor; after leave() all is refused.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/call/backend.hpp"
#include "collectives/call/call.hpp"
#include "collectives/call/task.hpp"
#include "collectives/work.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace detail {

// kMaxStarted: how many started operations may wait for their turn; a thread that starts more waits.
inline constexpr std::size_t kMaxStarted = 4096;

class Messenger;
class ThreadWorkState;
class Transfers;

class Executor {
  public:
    Executor(std::unique_ptr<Backend> backend, int world_size);
    // Makes sends, receives and groups go by `transfers`. Called before the first operation.
    void send_by(std::unique_ptr<Transfers> transfers);
    // Waits for what was started, then lets the backend leave.
    ~Executor();

    // Returns when the task has been carried out. Throws what the backend throws.
    void run(const Task& task);
    // Starts the task. What the operation throws, its Work throws. Refuses a stream where there is no device.
    Work start(const Task& task);

    // Waits for what was started, then closes the messenger.
    void close(Messenger& messenger, Deadline deadline);
    // Waits for what was started, then closes the messenger, if there is one, and lets the backend leave; see
    // Backend::leave(). Aborts if what was started has not ended by the deadline.
    std::vector<int> leave(Deadline deadline, Messenger* messenger);

    // abort() and the following three ask the backend; any thread.
    void abort(const std::string& reason) { backend_->abort(reason); }
    void set_timeout(std::chrono::milliseconds timeout) { backend_->set_timeout(timeout); }
    bool ended() const { return backend_->ended(); }
    std::optional<Verdict> verdict() const { return backend_->verdict(); }
    // backend() is for what needs no turn, such as memory, and for tests.
    Backend& backend() { return *backend_; }

    // Carries out the first started operation, if its turn has come and no thread has begun it; false if not.
    // `waiter` is the lock of a state that has not ended: it is let go of before the operation begins, and
    // the executor may be gone afterwards.
    bool help(std::unique_lock<std::mutex>& waiter);

  private:
    using Ticket = std::uint64_t;

    // Turn: made, it waits for the turn of an operation; destroyed, it passes the turn on.
    class Turn {
      public:
        Turn(Executor& executor, Ticket ticket) : executor_(executor), ticket_(ticket) {
            executor_.await_turn(ticket_, Deadline::max());
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn() { executor_.pass_on(ticket_); }

      private:
        Executor& executor_;
        Ticket ticket_;
    };

    struct Started {
        Task task;
        std::shared_ptr<ThreadWorkState> state;
        Ticket ticket;
    };

    // Waits for the turn; false if it has not come by the deadline.
    bool await_turn(Ticket ticket, Deadline deadline);
    void pass_on(Ticket ticket);
    void refuse_if_left(Operation operation) const;
    void carry_out(const Task& task);
    // Returns the task as a backend takes it. Where its parts are counted, all ranks tell each other their
    // counts. Throws invalid_argument where they disagree.
    Task agreed(Task task);
    // Returns the task with the input of premul_sum multiplied.
    Task multiplied(Task task);
    // Returns room for `bytes`; null where there is no memory, which ends the communicator.
    std::byte* scratch(std::size_t bytes);
    void perform(const Started& started);
    void serve();

    std::unique_ptr<Backend> backend_;
    std::unique_ptr<Transfers> transfers_;  // null: by the backend
    int world_size_;
    // scratch_: inputs of premul_sum, multiplied, where no output has room for them; small parts behind each
    // other. Kept between calls.
    std::vector<std::byte> scratch_;
    bool left_ = false;               // for the thread that has the turn
    std::atomic<Ticket> next_{0};     // to be given out
    std::atomic<Ticket> serving_{0};  // that has the turn
    std::atomic<int> waiting_{0};     // threads that sleep until their turn comes
    std::mutex mutex_;                // guards what follows
    std::condition_variable changed_;
    std::deque<Started> started_;
    bool served_ = false;  // a thread is at them, or will be
    bool stopping_ = false;
};

inline constexpr const char* kFinalized = "this communicator has been finalized";

}  // namespace detail
}  // namespace ddprun
