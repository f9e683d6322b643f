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
//   terms          `<rank> <world_size> <excluded>`: who came first, and whom it expects; all others must
//                  expect the same
//   member/<rank>  where the rank listens (membership.hpp)
//   arrived        how many have said that
//   table          what came of it: the list of members, or `!` and why there is none
//   gone/<rank>    see Departure; ranks of the new communicator
// The last to come writes the table. A rank that runs out of time, or disagrees, writes why there is none;
// what is written first decides for all. So it costs each rank a handful of requests, whatever the number of
// ranks.

// Which ranks are to come. `excluded`, ascending: numbers below world_size that nobody has, the new
// communicator's ranks are counted without them.
struct Terms {
    int world_size = 1;
    std::vector<int> excluded;

    bool operator==(const Terms&) const = default;
};

// How errors name it: the operation ("join"), and whom it gathers ("ranks").
struct GatheringNames {
    const char* operation;
    const char* members;
};

// How the ranks of a communicator tell the one that serves their store that they need it no more. Borrows the
// store, whose own errors come through.
class Departure {
  public:
    Departure(Store& store, std::string prefix, int rank, int world_size)
        : store_(store), prefix_(std::move(prefix)), rank_(rank), world_size_(world_size) {}

    void say_gone() { store_.set(key(rank_), "1"); }
    // Waits until these, or all others, have said so; `timeout` at most. False when they have not.
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

    // `prefix` ends with a slash; `rank` is expected by its own `terms`. The store is borrowed.
    Gathering(Store& store, GatheringNames names, std::string prefix, int rank, Terms terms);

    // Publishes `self` and waits for all others until `deadline`. Round and communicator of what it
    // returns are 0. Throws CollectiveError: timed_out with the missing ranks as culprits, or mismatch with
    // two that expect others; lets the store's own errors through.
    Membership run(const Member& self, Deadline deadline);

    // Ranks that are expected and have not come.
    std::vector<int> missing();

    // The communicator that is made gets these.
    Departure departure() const;

  private:
    std::string key(const char* name, int rank) const;
    void require_agreement();
    // Returns what counts: `decision`, or what another rank has decided before.
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

// Started operations that may wait for their turn; who starts more waits.
inline constexpr std::size_t kMaxStarted = 4096;

class Executor;
class Lifeline;
class Messenger;
class Transfers;

// The state of an operation that a thread of this process carries out.
class ThreadWorkState final : public WorkState {
  public:
    // Borrowed until the end.
    explicit ThreadWorkState(Executor& executor) : executor_(executor) {}

    // That thread calls it, once.
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

    // Without a deadline it helps: what nobody has begun yet, the waiting thread carries out.
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

// EndWatch: who wants to be told when a communicator ends. Any thread.
class EndWatch {
  public:
    using Call = std::function<void(const Status&)>;

    // Calls ended() once, by run_beside().
    void add(Call ended);
    // Only the first counts.
    void tell(const Status& status);

  private:
    std::mutex mutex_;
    std::optional<Status> told_;
    std::vector<Call> calls_;
};

// Executor: carries out a communicator's operations in the order in which they were asked for, on the
// caller's thread or beside it.
//
// Each takes a ticket when it is asked for, and its turn comes when all before it are through; so the backend
// is never used by two threads. Operations that were started go to a thread of the process's that is free
// (run_beside), or to the thread that waits for them, where that comes first; those that are run are carried
// out by the caller. So programs that start nothing pay for no thread, and communicators where nothing goes
// on have none. A backend on a device starts them by itself.
//
// Any thread, but for the destructor; after leave() all is refused.
class Executor {
  public:
    Executor(std::unique_ptr<Backend> backend, int world_size);
    // Before the first operation: sends, receives and groups go this way.
    void send_by(std::unique_ptr<Transfers> transfers);
    // Waits for what was started, then lets the backend leave.
    ~Executor();

    // Returns when the task has been carried out. Throws what the backend throws.
    void run(const Task& task);
    // Throws nothing of the operation itself: its Work does. Refuses a stream where there is no device.
    Work start(const Task& task);

    // Waits for what was started, then closes the messenger.
    void close(Messenger& messenger, Deadline deadline);
    // Waits for what was started, then closes the messenger, if there is one, and lets the backend leave; see
    // Backend::leave(). Aborts if what was started has not ended by the deadline.
    std::vector<int> leave(Deadline deadline, Messenger* messenger);

    // These ask the backend; any thread.
    void abort(const std::string& reason) { backend_->abort(reason); }
    void set_timeout(std::chrono::milliseconds timeout) { backend_->set_timeout(timeout); }
    bool ended() const { return backend_->ended(); }
    std::optional<Verdict> verdict() const { return backend_->verdict(); }
    // For what needs no turn, as memory; and for tests.
    Backend& backend() { return *backend_; }

    // Carries out the first that was started, if its turn has come and nobody has begun it; false if not.
    // `waiter` is the lock of a state that has not ended; it is let go of before the operation begins, and
    // the executor may be gone afterwards.
    bool help(std::unique_lock<std::mutex>& waiter);

  private:
    using Ticket = std::uint64_t;

    // From when an operation's turn has come until it is over.
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

    // False if the turn has not come by the deadline.
    bool await_turn(Ticket ticket, Deadline deadline);
    void pass_on(Ticket ticket);
    void refuse_if_left(Operation operation) const;
    void carry_out(const Task& task);
    // Where the parts are counted: has all ranks tell each other, and returns the task as a backend takes it.
    // Throws invalid_argument where they disagree.
    Task agreed(Task task);
    // The same task with the input of premul_sum multiplied.
    Task multiplied(Task task);
    // Room of so many bytes; null where there is no memory, which ends the communicator.
    std::byte* scratch(std::size_t bytes);
    void perform(const Started& started);
    void serve();

    std::unique_ptr<Backend> backend_;
    std::unique_ptr<Transfers> transfers_;  // null: by the backend
    int world_size_;
    // Inputs of premul_sum, multiplied, where no output has room for them; small parts behind each other.
    // Kept between calls.
    std::vector<std::byte> scratch_;
    bool left_ = false;               // whose turn it is reads and writes it
    std::atomic<Ticket> next_{0};     // that is given out
    std::atomic<Ticket> serving_{0};  // whose turn it is
    std::atomic<int> waiting_{0};     // threads that sleep until their turn comes
    std::mutex mutex_;                // guards what follows
    std::condition_variable changed_;
    std::deque<Started> started_;
    bool served_ = false;  // a thread is at them, or will be
    bool stopping_ = false;
};

// The store the ranks met in, kept until this rank's communicator ends. Members end in reverse order: the
// store this process may host goes last.
struct MeetingRoom {
    // Only on rank 0, and only where no launcher hosts; shared with the communicators made from this one.
    std::shared_ptr<StoreHost> host;
    std::shared_ptr<Store> store;
    std::unique_ptr<Departure> departure;  // where rank 0 hosts
    bool rank_0_hosts = false;
    // Another connection to the same store; takes that long at most, and throws as stores do.
    std::function<std::shared_ptr<Store>(std::chrono::milliseconds)> reopen;

    // A communicator made from this one gets it: the same store, without a connection as long as nobody needs
    // one.
    MeetingRoom later() const;

    // Tells the others that this rank needs the store no more; who hosts it waits until all have said so,
    // `timeout` at most. Then lets go of it.
    void leave(std::chrono::milliseconds timeout);
};

// The ranks of one host talk by shared memory where all of them can have it, or over TCP as between
// hosts.
enum class Transport { automatic, tcp };

struct Session {
    const ProcessNumber process = this_process();  // whose it is
    int rank = 0;
    int world_size = 1;
    int local_rank = 0;
    int local_world_size = 1;
    bool shares_memory = false;  // with the other ranks of its host
    // Communicators that are split off need these.
    CommunicatorOptions options;
    Transport transport = Transport::automatic;
    std::optional<NcclSettings> nccl;
    std::optional<PortRange> ports;  // see HostSettings
    std::atomic<int> shrinks{0};     // how often this rank has begun a shrink()
    std::atomic<int> splits{0};      // and, as all the others, a split()
    MeetingRoom room;
    std::unique_ptr<Executor> executor;  // null once finalized
    // Of messages by tag; ends before the executor, on whose backend it works. Null with NCCL.
    std::shared_ptr<Messenger> messenger;
    Lifeline* lifeline = nullptr;  // the executor's; none when alone, or finalized
    const std::shared_ptr<EndWatch> end_watch = std::make_shared<EndWatch>();
    std::mutex end_mutex;             // guards its end against abort() and status(), on any thread
    std::atomic<int> calls{0};        // in progress
    std::atomic<bool> ending{false};  // no more of them

    // Leaves in order: first the ranks, then the store; waits, options.leave_timeout at most, for those who
    // still need a store that lives here.
    ~Session();

    // See Communicator::finalize(). Throws CollectiveError; there is no executor afterwards.
    void finalize(std::chrono::milliseconds timeout);

    // As they are now: set_timeout() may change them meanwhile.
    CommunicatorOptions current_options() {
        const std::lock_guard lock(end_mutex);
        return options;
    }

    // How it is; ok where it has no executor any more. The caller has end_mutex, or is alone.
    Status status() const;

  private:
    void end_executor();
};

inline constexpr const char* kFinalized = "this communicator has been finalized";
inline constexpr const char* kOfParent =
    "this communicator belongs to another process, which this one was forked from";

// Nothing of the session may be touched in a forked child: who was at it in the parent is not here.
inline bool is_of_parent(const Session& session) noexcept { return session.process != this_process(); }

// One call of a communicator: finalize() waits until it is through. Keeps out calls after that, or in a
// forked child.
class CallGuard {
  public:
    // Throws invalid_argument about an operation, or about a call that is none and has that name.
    template <class Name>
    CallGuard(Session& session, Name name) : session_(session) {
        if (const char* problem = enter()) refuse(name, problem);
    }
    CallGuard(const CallGuard&) = delete;
    CallGuard& operator=(const CallGuard&) = delete;
    ~CallGuard() { leave(); }

  private:
    // Tells what is wrong, or null.
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
