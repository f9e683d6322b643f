// CoordinatorClient: an agent's one connection to the coordinator.
//
// Connects (and tries again, with a growing pause, until the join deadline; also where nobody answered), says
// Hello (and in it, at which address it has reached the coordinator), then hands over each message and writes
// what it is given. Answers heartbeats by itself, and gives the connection up when they fail (heartbeat.hpp).
// Created, driven and destroyed by the agent on the thread of `executor`; callbacks come from there and never
// from inside a call of the client's own functions. After a callback has reported the end of a connection,
// join() may be called again.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/system/secret_key.hpp"

namespace ddprun {
inline namespace job {

class ControlChannel;

// CoordinatorClaims: what a coordinator may say to this agent, from what both know of the job. Pure; the
// CoordinatorClient asks. Numbers that no job can have are refused before, where the bytes arrive (range_of).
class CoordinatorClaims {
  public:
    explicit CoordinatorClaims(const Hello& own)
        : nnodes_(own.nnodes), workers_(own.local_world_size), wants_ends_(own.wants_rank_ends) {}

    // False for what no coordinator of this job says; true for the rest, which is noted.
    bool accept(const ControlMessage& message);

  private:
    bool accept_one(const RoundReady& ready);
    bool accept_one(const RankEnds& ends);
    bool accept_one(const Waiting& waiting) const;
    bool accept_one(const MemberList& list) const;
    template <typename Other>
    bool accept_one(const Other&) const {
        return true;
    }

    int nnodes_;
    int workers_;  // of this node
    bool wants_ends_;
    RoundReady round_{.round = -1};  // the last one
    std::size_t ends_ = 0;           // taken since then
};

// So much later than due this process goes on because it stood still; nothing for what a busy machine does.
// Pure.
std::chrono::steady_clock::duration overslept(std::chrono::steady_clock::time_point due,
                                              std::chrono::steady_clock::time_point now);
inline std::chrono::steady_clock::duration overslept(const boost::asio::steady_timer& timer) {
    return overslept(timer.expiry(), std::chrono::steady_clock::now());
}

struct CoordinatorClientEvents {
    std::function<void(const ControlMessage&)> on_message;
    // One attempt to connect failed with this cause; the next follows by itself.
    std::function<void(const std::string& cause)> on_trouble;
    std::function<void(const CoordinatorLoss& loss)> on_lost;
    // From then on the coordinator may count this node as lost. Told whenever that moves; nothing while it
    // does not, or nobody knows: without heartbeats, without a connection, and while one of the two is
    // suspended. May be empty.
    std::function<void(const std::optional<LeaseEnd>& end)> on_lease;
};

struct CoordinatorClientOptions {
    Endpoint coordinator;
    // A conversation with the coordinator that is in this process; then nothing is connected. May be empty.
    // It says nothing when that one is there no more: then this client is about to be replaced, and reports
    // nothing.
    std::function<std::shared_ptr<ControlChannel>()> in_process = {};
    Hello hello;
    std::chrono::steady_clock::time_point join_deadline;
    // From Hello to the first word of the coordinator; by default kAnswerTimeout, and not much beyond
    // join_deadline.
    std::optional<std::chrono::milliseconds> answer_timeout = {};
    // Both sides must have this key; nothing: the connection is plain. Not asked for in process.
    std::optional<SecretKey> key = {};
    // Called when there is a connection, before Hello is sent, with the address of this machine that it was
    // made from; may add to the Hello. May be empty.
    std::function<void(Hello& hello, const std::string& local_address)> on_connected = {};
};

// Where a connection comes from.
struct CallerAddress {
    std::string local;  // the address of this machine
    std::string seen;   // that which the coordinator sees; empty until it has let this agent in
};

class CoordinatorClient {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    static constexpr std::chrono::milliseconds kFirstPause{10};
    static constexpr std::chrono::milliseconds kLongestPause{1'000};
    // One attempt; a dropped packet must not hide the cause for longer.
    static constexpr std::chrono::milliseconds kAttemptTimeout{3'000};
    // Who refuses this agent's secret has proven nothing, and may be another one the next time.
    static constexpr std::chrono::seconds kUnprovenTime{3};
    // The first word may take Roster::kFirstStatusDelay.
    static constexpr std::chrono::seconds kAnswerTimeout{10};
    // A coordinator whose own join timeout ends at the same time says more about it, in this time.
    static constexpr std::chrono::seconds kRefusalTime{2};

    CoordinatorClient(const boost::asio::any_io_executor& executor, CoordinatorClientOptions options,
                      CoordinatorClientEvents events);
    ~CoordinatorClient();

    void join();

    // The address that the last connection was made from; empty before the first, and where none is needed.
    const CallerAddress& caller_address() const;

    // The coordinator has counted this node as lost by now, though on_lost has not been called yet: this
    // process stood still.
    std::optional<CoordinatorLoss> overdue_loss() const;

    // Queues a message; without a connection it is dropped (the agent hears of the loss by on_lost).
    void send(const ControlMessage& message);

    // Tells the coordinator that this process is about to stand still; `done` is called when the coordinator
    // and all that it has to tell know that, kSuspendTimeout later at the latest. resume() when it goes on.
    static constexpr std::chrono::seconds kSuspendTimeout{1};
    void suspend(std::function<void()> done);
    void resume();

    // Ends the connection once everything queued is written, and reports nothing any more. `on_closed` is
    // called when that is done, kCloseTimeout later at the latest.
    static constexpr std::chrono::seconds kCloseTimeout{2};
    void close(std::function<void()> on_closed);

  private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace job
}  // namespace ddprun
