// Session: all that a Communicator owns, in the order in which it must end.
//
// Made by bootstrap; used by Communicator's threads: what changes has its own guard. A forked child never
// ends its copy.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/nccl/nccl_join.hpp"
#include "collectives/options.hpp"
#include "collectives/session/departure.hpp"
#include "collectives/session/executor.hpp"
#include "collectives/status.hpp"
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

class Lifeline;
class Messenger;

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

}  // namespace detail
}  // namespace ddprun
