// PortService listens at the job's port, and tells by the first bytes what calls: agents are handed over, all
// other callers get the store. Runs on a thread of its own, so that neither a busy store nor strangers delay
// the coordinator.
//
// Owned by RendezvousServer: everything, the destructor included, on the thread that runs the executor, or
// while no thread runs it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/door/door_link.hpp"
#include "rendezvous/secure/sealed_connection.hpp"
#include "rendezvous/server/caller_gate.hpp"
#include "rendezvous/store/store_service.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace job {

// Runs `context` on a thread until it is stopped or has nothing left to do, whatever its handlers throw (an
// allocation that failed, a listener that broke). A failed handler must not take the launcher with it, or the
// workers would be killed without a word. The first time that something escapes from a handler, on_failed is
// called on that thread with what went wrong. The others are served all the same, so that the owner can end
// the job in order. Throws as start_without_signals does.
inline std::thread start_serving(boost::asio::io_context& context,
                                 std::function<void(const std::string& what)> on_failed) {
    return start_without_signals([&context, on_failed = std::move(on_failed)]() mutable {
        for (;;) {
            try {
                context.run();
                return;
            } catch (const std::exception& error) {
                if (const auto tell = std::exchange(on_failed, {})) tell(error.what());
            }
        }
    });
}

// PortCalls counts the connections that the job's port has taken, and knows which of them have yet to show
// that they are of the job.
//
// A caller is unproven as long as all that it has said could be a repetition, or come from any program. The
// doubt ends when its first message is complete, and the coordinator has accepted the caller. With a key, the
// message must also open with it. An unproven caller has little time, and goes when there are too many.

// UnprovenCalls says which unproven connection goes when there are too many. Pure; owned by PortCalls.
// PyTorch's clients that never speak are not among them: they call from a machine of the round, and do not
// begin as an agent does.
class UnprovenCalls {
  public:
    using Id = std::uint64_t;

    static constexpr std::size_t kMost = 256;
    static constexpr std::size_t kMostOfOneSource = 32;

    explicit UnprovenCalls(std::size_t most = kMost) : most_(most) {}

    // Adds a new call; without a source any number may come. Returns the call that has to go, which counts no
    // longer: the oldest that has said nothing, else the oldest. Where one source has too many calls, one of
    // that source goes. `has_said` (may be empty) tells whether a call that would have to go as silent has
    // sent bytes that were not read yet.
    std::optional<Id> add(Id id, const std::optional<boost::asio::ip::address>& source,
                          const std::function<bool(Id)>& has_said = {});
    void speaks(Id id);
    // Removes a call; no effect on one that had to go.
    void remove(Id id);

    std::size_t size() const { return calls_.size(); }

  private:
    struct Call {
        Id id;
        std::optional<boost::asio::ip::address> source;
        bool is_silent = true;
    };

    std::size_t most_;
    std::list<Call> calls_;  // the oldest first
};

class PortCall;

// PortCalls counts connections from PortService's take() to their end, whatever serves them. Owned by
// PortService and by its calls; used on the port's thread, but for what PortCall says.
class PortCalls : public std::enable_shared_from_this<PortCalls> {
  public:
    static constexpr std::chrono::seconds kUnprovenTime{5};
    // kMaxWaitingBytes: bytes of whole first messages that may wait for the coordinator to look at them.
    static constexpr std::size_t kMaxWaitingBytes = std::size_t{16} << 20;

    PortCalls(boost::asio::any_io_executor executor, const ConnectionLimit& limit);

    // Takes one more call, perhaps in place of the one that has been silent longest; null: there are too
    // many.
    std::shared_ptr<PortCall> take();
    bool is_full() const { return !limit_.has_room(calls_.size() - going_); }
    std::optional<std::string> tell_full() { return limit_.tell_full(); }

  private:
    friend class PortCall;
    using Id = UnprovenCalls::Id;
    struct Call {
        std::optional<boost::asio::ip::address> source;
        std::function<void()> close;       // as long as the call is unproven
        std::function<bool()> has_said{};  // as long as nothing of the call was taken; may be empty
        std::optional<boost::asio::steady_timer> deadline{};  // as long as that
        std::size_t waiting = 0;  // bytes of the first message, see kMaxWaitingBytes
        bool is_going = false;    // the call has made room
    };
    struct Silent {
        std::function<void()> close;
        std::function<bool()> has_said;
    };

    bool make_room();
    void doubt(Id id);
    void trust(Id id);
    void settle(Id id, bool is_taken, std::function<void()> close);
    void forget(Id id);

    boost::asio::any_io_executor executor_;
    ConnectionLimit limit_;
    UnprovenCalls unproven_;
    std::unordered_map<Id, Call> calls_;
    std::map<Id, Silent> silent_;  // that need say nothing as long as there is room, the oldest first
    std::size_t going_ = 0;
    std::size_t waiting_ = 0;
    Id last_ = 0;
};

// PortCall: one connection's part of PortCalls, kept as long as its descriptor is open; it may end on any
// thread.
class PortCall {
  public:
    PortCall(std::shared_ptr<PortCalls> calls, PortCalls::Id id) : calls_(std::move(calls)), id_(id) {}
    ~PortCall();
    PortCall(const PortCall&) = delete;
    PortCall& operator=(const PortCall&) = delete;

    // Makes the caller unproven. `source`: nothing for processes of our own user, of which any number may
    // come. `close` is called when the caller has to go; before that `has_said` tells whether there is
    // something to read.
    void doubt(const std::optional<boost::asio::ip::address>& source, std::function<void()> close,
               std::function<bool()> has_said = {});
    // Lets the caller say nothing as long as there is room. The functions are called as in doubt().
    void may_be_silent(std::function<void()> close, std::function<bool()> has_said);
    void speaks();
    // Ends the doubt: the caller is unproven no longer, or is no agent.
    void trust();
    // Returns whether the caller's first message, of `bytes` bytes, may go to the coordinator; the caller
    // need not go before that has looked at it. False: too many bytes wait for the coordinator.
    bool is_put_forward(std::size_t bytes);
    // Tells, on any thread, what has come of that message: a caller that was not taken is unproven again.
    // `close` is called on the port's thread.
    void settle(bool is_taken, std::function<void()> close);

  private:
    std::shared_ptr<PortCalls> calls_;
    PortCalls::Id id_;
};

// AgentEntry: what an agent, or its door for workers, has shown by its first words: whether it has the job's
// key, if there is one, and then its first message.
struct AgentEntry {
    bool is_open = false;
    // first_bytes: unsealed; of a door what its first record says, of an agent at least its first message.
    std::string first_bytes;
    std::optional<SealedRecords> records;  // of a sealed conversation, behind those
    bool is_door = false;  // the agent's door speaks for its workers to the store, see DoorHost
    std::string why;       // why it was turned away, for the user of this node; empty: it broke off
};

// PortServiceEvents: called on the service's thread.
struct PortServiceEvents {
    // on_agent hands over the connection of an agent that has said its first message, of this service's
    // executor. `call` is kept as long as the connection is open, and is told what has come of that message.
    std::function<void(boost::asio::ip::tcp::socket socket, AgentEntry entry, std::shared_ptr<PortCall> call)>
        on_agent;
    // on_remark tells the user of this node something that the user should know; each sentence once.
    std::function<void(const std::string& sentence)> on_remark;
    // on_refused tells auditors, within RefusedCallers' bounds.
    std::function<void(const RefusedCaller& caller)> on_refused;
};

struct PortServiceOptions {
    std::optional<SecretKey> key;        // what agents are asked for; nothing: nothing
    std::size_t spared_descriptors = 0;  // of this process, that are not for connections
};

class PortService {
  public:
    // PortService takes listening sockets, and uses their executor.
    PortService(std::vector<boost::asio::ip::tcp::acceptor> acceptors, PortServiceOptions options,
                PortServiceEvents events);

    // Takes calls from then on. Throws, by way of the executor, when a listener itself is broken.
    void start();

    // Empties the store, as every round must find it, and opens it to these machines only. If workers go
    // through doors, it opens to the agents there, and to our own user's processes on this machine.
    void begin_round(const std::vector<boost::asio::ip::address>& machines, bool through_doors);
    void admit(const std::vector<boost::asio::ip::address>& machines) { gate_.admit(machines); }

  private:
    struct Door {
        std::shared_ptr<PortCall> call;
        std::unique_ptr<DoorHost> host;
    };

    void take(boost::asio::ip::tcp::socket socket);
    boost::asio::awaitable<void> identify(boost::asio::ip::tcp::socket socket,
                                          std::shared_ptr<PortCall> call);
    boost::asio::awaitable<void> let_agent_in(boost::asio::ip::tcp::socket& socket, std::string first,
                                              const CallerGate::Caller& caller,
                                              std::shared_ptr<PortCall> call);
    void open_door(boost::asio::ip::tcp::socket socket, AgentEntry entry, const CallerGate::Caller& caller,
                   std::shared_ptr<PortCall> call);
    void remark(const std::optional<std::string>& sentence) const;
    void turn_away(const CallerGate::Caller& caller, const std::string& why = {});

    std::vector<boost::asio::ip::tcp::acceptor> acceptors_;
    PortServiceEvents events_;
    ConnectionOwners owners_;
    CallerGate gate_;
    std::shared_ptr<PortCalls> calls_;  // calls may outlive this service
    std::shared_ptr<StoreService> store_;
    std::unordered_map<std::uint64_t, Door> doors_;  // doors to the store
    std::uint64_t last_door_ = 0;
    std::optional<SecretKey> key_;
};

}  // namespace job
}  // namespace ddprun
