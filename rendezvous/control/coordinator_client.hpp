// CoordinatorClient: an agent's one connection to the coordinator.
//
// The client connects, and tries again with a growing pause until the join deadline, even where nothing
// answers. Then the client says Hello, which tells the address at which it has reached the coordinator. From
// then on the client hands over each message, writes what it is given, and answers heartbeats by itself. When
// heartbeats fail, the client gives the connection up (heartbeat.hpp). The agent creates, drives and destroys
// it on the thread of `executor`. Callbacks come from there, never from inside a call of the client's own
// functions. After a callback has reported the end of a connection, join() may be called again.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
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

// Returns how much later than due this process goes on because it stood still; zero for the delays of a busy
// machine. Pure.
std::chrono::steady_clock::duration overslept(std::chrono::steady_clock::time_point due,
                                              std::chrono::steady_clock::time_point now);
inline std::chrono::steady_clock::duration overslept(const boost::asio::steady_timer& timer) {
    return overslept(timer.expiry(), std::chrono::steady_clock::now());
}

struct CoordinatorClientEvents {
    std::function<void(const ControlMessage&)> on_message;
    // on_trouble: one attempt to connect failed with this cause; the next follows by itself.
    std::function<void(const std::string& cause)> on_trouble;
    std::function<void(const CoordinatorLoss& loss)> on_lost;
    // on_lease: after `end` the coordinator may count this node as lost. Told whenever `end` moves. Nothing
    // while it does not move or is not known: without heartbeats, without a connection, and while one of the
    // two sides is suspended. May be empty.
    std::function<void(const std::optional<LeaseEnd>& end)> on_lease;
};

struct CoordinatorClientOptions {
    Endpoint coordinator;
    // in_process opens a conversation with the coordinator in this process; then nothing is connected. May be
    // empty. Returns nullptr once that coordinator is gone: this client is about to be replaced then, and
    // reports nothing.
    std::function<std::shared_ptr<ControlChannel>()> in_process = {};
    Hello hello;
    std::chrono::steady_clock::time_point join_deadline;
    // answer_timeout: how long the coordinator's first word may take after Hello. Nothing: kAnswerTimeout,
    // but no longer than until kRefusalTime after join_deadline.
    std::optional<std::chrono::milliseconds> answer_timeout = {};
    // key: the secret key that both sides must have; nothing: the connection is plain. An agent in the
    // coordinator's own process is not asked for it.
    std::optional<SecretKey> key = {};
    // on_connected is called when there is a connection, before Hello is sent, with the address of this
    // machine that the connection was made from. The callee may add to `hello`. May be empty.
    std::function<void(Hello& hello, const std::string& local_address)> on_connected = {};
};

// CallerAddress: where a connection comes from.
struct CallerAddress {
    std::string local;  // the address of this machine
    std::string seen;   // as the coordinator sees it; empty until it has let this agent in
};

class CoordinatorClient {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    static constexpr std::chrono::milliseconds kFirstPause{10};
    static constexpr std::chrono::milliseconds kLongestPause{1'000};
    // kAttemptTimeout: for one attempt; a dropped packet must not hide the cause for longer.
    static constexpr std::chrono::milliseconds kAttemptTimeout{3'000};
    // kUnprovenTime: for trying again where this agent's secret is refused. The side that refuses has proven
    // nothing, and may be another one the next time.
    static constexpr std::chrono::seconds kUnprovenTime{3};
    // kAnswerTimeout: longer than Roster::kFirstStatusDelay, after which the first word may come.
    static constexpr std::chrono::seconds kAnswerTimeout{10};
    // kRefusalTime: time beyond the join deadline for a coordinator with a join timeout that ends at the same
    // time: its refusal says more.
    static constexpr std::chrono::seconds kRefusalTime{2};

    CoordinatorClient(const boost::asio::any_io_executor& executor, CoordinatorClientOptions options,
                      CoordinatorClientEvents events);
    ~CoordinatorClient();

    void join();

    // Returns the address that the last connection was made from; empty before the first, and where none is
    // needed.
    const CallerAddress& caller_address() const;

    // Returns the loss if the coordinator has counted this node as lost by now, though on_lost has not been
    // called yet: this process stood still.
    std::optional<CoordinatorLoss> overdue_loss() const;

    // Queues a message. Without a connection it is dropped (the agent hears of the loss by on_lost).
    void send(const ControlMessage& message);

    // kSuspendTimeout: how long suspend() waits for an answer at most. suspend() tells the coordinator that
    // this process is about to stand still. `done` is called when the coordinator, and all that it has to
    // tell, know that. resume() is called when the process goes on.
    static constexpr std::chrono::seconds kSuspendTimeout{1};
    void suspend(std::function<void()> done);
    void resume();

    // kCloseTimeout: how long close() takes at most. close() ends the connection once everything queued is
    // written, reports nothing any more, and then calls `on_closed`.
    static constexpr std::chrono::seconds kCloseTimeout{2};
    void close(std::function<void()> on_closed);

  private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace job
}  // namespace ddprun
