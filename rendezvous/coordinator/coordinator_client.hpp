// CoordinatorClient: an agent's one connection to the coordinator.
//
// Connects (and tries again, with a growing pause, until the join deadline), says Hello (and in it, at which
// address it has reached the coordinator), then hands over each
// message and writes what it is given. Created, driven and destroyed by the agent on the thread of
// `executor`; callbacks come from there and never from inside a call of the client's own functions. After a
// callback has reported the end of a connection, join() may be called again.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/coordinator/control_message.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {

struct CoordinatorClientEvents {
    std::function<void(const ControlMessage&)> on_message;
    // One attempt to connect failed with this cause; the next follows by itself.
    std::function<void(const std::string& cause)> on_trouble;
    // The connection broke after it was made, or the deadline passed without one (`gave_up`).
    std::function<void(const std::string& cause, bool gave_up)> on_lost;
};

class CoordinatorClient {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    static constexpr std::chrono::milliseconds kFirstPause{10};
    static constexpr std::chrono::milliseconds kLongestPause{1'000};
    // One attempt; a dropped packet must not hide the cause for longer.
    static constexpr std::chrono::milliseconds kAttemptTimeout{3'000};

    CoordinatorClient(const boost::asio::any_io_executor& executor, Endpoint coordinator, Hello hello,
                      TimePoint join_deadline, CoordinatorClientEvents events);
    ~CoordinatorClient();

    void join();

    // The address of this machine that the last connection was made from; empty before the first.
    const std::string& local_address() const;

    // Queues a message; without a connection it is dropped (the agent hears of the loss by on_lost).
    void send(const ControlMessage& message);

    // Ends the connection once everything queued is written, and reports nothing any more. `on_closed` is
    // called when that is done, kCloseTimeout later at the latest.
    static constexpr std::chrono::seconds kCloseTimeout{2};
    void close(std::function<void()> on_closed);

  private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
