// Session: all that a Communicator owns, in the order in which it must end.
//
// Made by bootstrap; used by Communicator's threads: what changes has its own guard. A forked child never
// ends its copy.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/call/backend.hpp"
#include "collectives/call/call.hpp"
#include "collectives/nccl/nccl_join.hpp"
#include "collectives/options.hpp"
#include "collectives/status.hpp"
#include "collectives/wire/membership.hpp"
#include "collectives/work.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/store/store.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun {
inline namespace base {
class StoreHost;
}  // namespace base
}  // namespace ddprun

namespace ddprun {
inline namespace detail {

// Gathering: the ranks of a new communicator find each other through a Store, at first (bootstrap.hpp) and
// after a failure (split.hpp). No rank leads, for each may die or never come.
//
// Keys, under a prefix that this communicator alone has:
//   terms          `<rank> <world_size> <excluded>`: which rank came first, and which ranks it expects; all
//                  others must expect the same
//   member/<rank>  where the rank listens (membership.hpp)
//   arrived        how many have said that
//   table          what came of it: the list of members, or `!` and why there is none
//   gone/<rank>    see Departure; ranks of the new communicator
// The last to come writes the table. A rank that runs out of time, or disagrees, writes why there is none;
// what is written first decides for all. Each rank needs a handful of requests, whatever the number of ranks.

// Terms: which ranks are to come. `excluded`, ascending, are numbers below world_size that no rank has; the
// new communicator's ranks are counted without them.
struct Terms {
    int world_size = 1;
    std::vector<int> excluded;

    bool operator==(const Terms&) const = default;
};

// GatheringNames: how errors name a gathering: its operation ("join"), and what it gathers ("ranks").
struct GatheringNames {
    const char* operation;
    const char* members;
};

// Departure: how the ranks of a communicator tell the rank that serves their store that they no longer need
// it. Borrows the store; the store's own errors come through.
class Departure {
  public:
    Departure(Store& store, std::string prefix, int rank, int world_size)
        : store_(store), prefix_(std::move(prefix)), rank_(rank), world_size_(world_size) {}

    void say_gone() { store_.set(key(rank_), "1"); }
    // Waits until `ranks`, or all others, have said that they no longer need the store; `timeout` at most.
    // False if some have not.
    bool wait_for(const std::vector<int>& ranks, std::chrono::milliseconds timeout);
    bool wait_for_others(std::chrono::milliseconds timeout);

  private:
    std::string key(int rank) const { return prefix_ + "gone/" + std::to_string(rank); }

    Store& store_;
    std::string prefix_;
    int rank_;
    int world_size_;
};

class Gathering {
  public:
    using Clock = Deadline::clock;

    // Gathering borrows the store. `prefix` ends with a slash; `rank` is expected by its own `terms`.
    Gathering(Store& store, GatheringNames names, std::string prefix, int rank, Terms terms);

    // Publishes `self` and waits for all others until `deadline`. Round and communicator of what it
    // returns are 0. Throws CollectiveError: timed_out with the missing ranks as culprits, or mismatch with
    // two that expect others; lets the store's own errors through.
    Membership run(const Member& self, Deadline deadline);

    // Returns the ranks that are expected and have not come.
    std::vector<int> missing();

    // Returns the Departure of the new communicator.
    Departure departure() const;

  private:
    std::string key(const char* name, int rank) const;
    void require_agreement();
    // Returns the decision that counts: `decision`, or another rank's earlier one.
    std::string decide(const std::string& decision);
    void throw_if_failure(const std::string& decision) const;
    void make_table();
    std::string await_decision(Deadline deadline);

    Store& store_;
    GatheringNames names_;
    std::string prefix_;
    int rank_;
    Terms terms_;
    std::vector<int> expected_;
    int new_rank_;  // this rank's place among them
};

// kMaxStarted: how many started operations may wait for their turn; a thread that starts more waits.
inline constexpr std::size_t kMaxStarted = 4096;

class Executor;
class Lifeline;
class Messenger;
class Transfers;

// ThreadWorkState: the state of an operation that a thread of this process carries out.
class ThreadWorkState final : public WorkState {
  public:
    // ThreadWorkState borrows the executor until the end.
    explicit ThreadWorkState(Executor& executor) : executor_(executor) {}

    // Ends the operation; once, by the thread that carries it out.
    void end(std::optional<CollectiveError> error) {
        std::vector<std::function<void()>> calls;
        {
            const std::lock_guard lock(mutex_);
            error_ = std::move(error);
            ended_ = true;
            calls.swap(calls_);
        }
        changed_.notify_all();
        for (auto& done : calls) run_beside(std::move(done));
    }

    void then(std::function<void()> done) override {
        {
            const std::lock_guard lock(mutex_);
            if (!ended_) return calls_.push_back(std::move(done));
        }
        done();
    }

    bool ended() override {
        const std::lock_guard lock(mutex_);
        return ended_;
    }

    // wait_until() without a deadline helps: the waiting thread carries out what no thread has begun yet.
    bool wait_until(Deadline deadline) override;

    std::optional<CollectiveError> error() override {
        const std::lock_guard lock(mutex_);
        return error_;
    }

  private:
    Executor& executor_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false;
    std::optional<CollectiveError> error_;
    std::vector<std::function<void()>> calls_;
};

// EndWatch: the functions to call when a communicator ends. Any thread.
class EndWatch {
  public:
    using Call = std::function<void(const Status&)>;

    // Calls ended() once, by run_beside().
    void add(Call ended);
    // Calls all that were added; only the first tell() counts.
    void tell(const Status& status);

  private:
    std::mutex mutex_;
    std::optional<Status> told_;
    std::vector<Call> calls_;
};

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

// MeetingRoom: the store the ranks met in, kept until this rank's communicator ends. Members end in reverse
// order: the store this process may host goes last.
struct MeetingRoom {
    // host: only on rank 0, and only where no launcher hosts; shared with the communicators made from this
    // one.
    std::shared_ptr<StoreHost> host;
    std::shared_ptr<Store> store;
    std::unique_ptr<Departure> departure;  // where rank 0 hosts
    bool rank_0_hosts = false;
    // reopen() makes another connection to the same store; takes the time given at most, and throws as stores
    // do.
    std::function<std::shared_ptr<Store>(std::chrono::milliseconds)> reopen;

    // Returns the room of a communicator made from this one: the same store, connected only when that is
    // needed.
    MeetingRoom later() const;

    // Tells the others that this rank no longer needs the store, then lets go of it. The rank that hosts the
    // store first waits until all have said so, `timeout` at most.
    void leave(std::chrono::milliseconds timeout);
};

// Transport: the ranks of one host talk by shared memory where all of them can have it, or over TCP as
// between hosts.
enum class Transport { automatic, tcp };

struct Session {
    const ProcessNumber process = this_process();  // the one that made it
    int rank = 0;
    int world_size = 1;
    int local_rank = 0;
    int local_world_size = 1;
    bool shares_memory = false;  // with the other ranks of its host
    // options and the following are for communicators that are split off.
    CommunicatorOptions options;
    Transport transport = Transport::automatic;
    std::optional<NcclSettings> nccl;
    std::optional<PortRange> ports;  // see HostSettings
    std::atomic<int> shrinks{0};     // how often this rank has begun a shrink()
    std::atomic<int> splits{0};      // and, as all the others, a split()
    MeetingRoom room;
    std::unique_ptr<Executor> executor;  // null once finalized
    // messenger: for messages by tag; ends before the executor, since it works on the executor's backend.
    // Null with NCCL.
    std::shared_ptr<Messenger> messenger;
    Lifeline* lifeline = nullptr;  // the executor's; none when alone, or finalized
    const std::shared_ptr<EndWatch> end_watch = std::make_shared<EndWatch>();
    std::mutex end_mutex;             // guards its end against abort() and status(), on any thread
    std::atomic<int> calls{0};        // in progress
    std::atomic<bool> ending{false};  // no more calls

    // Leaves in order: first the ranks, then the store. Waits, options.leave_timeout at most, for ranks that
    // still need a store that lives here.
    ~Session();

    // Leaves as Communicator::finalize() says. Throws CollectiveError; there is no executor afterwards.
    void finalize(std::chrono::milliseconds timeout);

    // Returns the options of now: set_timeout() may change them.
    CommunicatorOptions current_options() {
        const std::lock_guard lock(end_mutex);
        return options;
    }

    // Returns how the communicator is; ok where there is no executor any more. The caller has end_mutex, or
    // is alone.
    Status status() const;

  private:
    void end_executor();
};

inline constexpr const char* kFinalized = "this communicator has been finalized";
inline constexpr const char* kOfParent =
    "this communicator belongs to another process, which this one was forked from";

// Returns true in a forked child, where nothing of the session may be touched: the threads that used it do
// not exist there.
inline bool is_of_parent(const Session& session) noexcept { return session.process != this_process(); }

// CallGuard: one call of a communicator: finalize() waits until it is through. Keeps out calls after that, or
// in a forked child.
class CallGuard {
  public:
    // Throws invalid_argument that names the operation, or a call that is none.
    template <class Name>
    CallGuard(Session& session, Name name) : session_(session) {
        if (const char* problem = enter()) refuse(name, problem);
    }
    CallGuard(const CallGuard&) = delete;
    CallGuard& operator=(const CallGuard&) = delete;
    ~CallGuard() { leave(); }

  private:
    const char* enter() {
        if (is_of_parent(session_)) return kOfParent;
        ++session_.calls;
        if (!session_.ending) return nullptr;
        leave();
        return kFinalized;
    }
    void leave() {
        --session_.calls;
        if (session_.ending) session_.calls.notify_all();
    }

    Session& session_;
};

}  // namespace detail
}  // namespace ddprun
