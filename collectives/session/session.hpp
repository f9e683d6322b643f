// Session: all that a Communicator owns, in the order in which it must end.
//
// Made by bootstrap; used by Communicator's thread, but for what is under end_mutex. A forked child never
// ends its copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "collectives/call/checked_task.hpp"
#include "collectives/nccl/nccl_settings.hpp"
#include "collectives/options.hpp"
#include "collectives/session/executor.hpp"
#include "collectives/session/gathering.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun::inline base {
class StoreHost;
}

namespace ddprun::inline detail {

class Lifeline;

// The store the ranks met in, kept until this rank's communicator ends. Members end in reverse order: the
// store this process may host goes last.
struct MeetingRoom {
    // Only on rank 0, and only where no launcher hosts; shared with the communicators made from this one.
    std::shared_ptr<StoreHost> host;
    std::shared_ptr<Store> store;
    std::unique_ptr<Departure> departure;
    // Another connection to the same store; takes that long at most, and throws as stores do.
    std::function<std::shared_ptr<Store>(std::chrono::milliseconds)> reopen;

    // For a communicator made from this one: the same store, without a connection as long as nobody needs one.
    MeetingRoom later() const;

    // Tells the others that this rank needs the store no more; who hosts it waits until all have said so,
    // `timeout` at most. Then lets go of it.
    void leave(std::chrono::milliseconds timeout);
};

// Between the ranks of one host: by shared memory where all of them can have it, or over TCP as between
// hosts.
enum class Transport { automatic, tcp };

// Longer timeouts could overflow the clock.
inline constexpr std::chrono::hours kLongestTimeout{24 * 3650};

struct Session {
    const ProcessNumber process = this_process();  // whose it is
    int rank = 0;
    int world_size = 1;
    int local_rank = 0;
    int local_world_size = 1;
    // For those that are split off.
    CommunicatorOptions options;
    Transport transport = Transport::automatic;
    std::optional<NcclSettings> nccl;
    Member self;                     // where this rank listens, and on which host; unused when alone
    std::optional<PortRange> ports;  // see HostSettings
    std::uint32_t round = 0;
    Nonce nonce{};
    std::optional<SecretKey> mesh_key;  // see Membership
    bool own_numbers = false;           // see Membership
    int shrinks = 0;                    // how often this rank has begun a shrink()
    MeetingRoom room;
    std::unique_ptr<Executor> executor;  // null once finalized
    Lifeline* lifeline = nullptr;        // the executor's; none when alone, or finalized
    std::mutex end_mutex;                // guards its end against abort() and status(), on any thread
    std::atomic<bool> in_use{false};

    // Leaves in order: first the ranks, then the store; waits, options.leave_timeout at most, for those who
    // still need a store that lives here.
    ~Session();

    // See Communicator::finalize(). Throws CollectiveError; there is no executor afterwards.
    void finalize(std::chrono::milliseconds timeout);

  private:
    void end_executor();
};

inline constexpr const char* kFinalized = "this communicator has been finalized";
inline constexpr const char* kOfParent =
    "this communicator belongs to another process, which this one was forked from";

// In a forked child nothing of the session may be touched: who was at it in the parent is not here.
inline bool is_of_parent(const Session& session) noexcept { return session.process != this_process(); }

// One call of a communicator: keeps a second thread out meanwhile, and all calls after finalize() or in a forked
// child.
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
    // What is wrong, or null.
    const char* enter() {
        if (is_of_parent(session_)) return kOfParent;
        if (session_.in_use.exchange(true, std::memory_order_acquire))
            return "another thread is in a call of this communicator";
        if (session_.executor) return nullptr;
        leave();
        return kFinalized;
    }
    void leave() { session_.in_use.store(false, std::memory_order_release); }

    Session& session_;
};

}  // namespace ddprun::inline detail
