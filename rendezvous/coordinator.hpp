// Coordinator: the one decision-maker of a job. Pure: messages and times come in, messages go out.
//
// It decides who takes part, assigns ranks, names the first failure (by order of receipt), and says when the
// job is over. It is driven by one caller on one thread (RendezvousServer, or a simulated network in tests),
// which hands it each message with the connection it came from, tells it of closed connections, and calls
// tick() at next_deadline(). It never blocks, reads no clock, and knows nothing of sockets, workers or grace
// periods.
//
//   state       leaves it when
//   gathering   all nodes have said Hello → running; the join timeout passes → over
//   running     every node succeeded → over; a first failure → stopping
//   stopping    every node's workers are gone, or the node itself is → over
//   over        (the caller stops once no connection is left, see empty())
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/control_message.hpp"

namespace ddprun {

struct CoordinatorOptions {
    std::string version;
    std::string run_id = "none";
    std::string job_id;
    int nnodes = 1;
    std::chrono::milliseconds join_timeout{900'000};
};

class Coordinator {
  public:
    using ConnectionId = std::uint64_t;
    using TimePoint = std::chrono::steady_clock::time_point;

    struct Outgoing {
        ConnectionId to = 0;
        ControlMessage message;
        bool close_after = false;  // the conversation is over once this is written
    };
    using Outbox = std::vector<Outgoing>;

    // A waiting agent is first told who is missing after this time, …
    static constexpr std::chrono::milliseconds kFirstStatusDelay{3'000};
    // … and on changes no more often than this.
    static constexpr std::chrono::milliseconds kStatusPeriod{1'000};
    static constexpr int kMaxWorkersPerNode = 4096;

    Coordinator(CoordinatorOptions options, TimePoint now);

    Outbox receive(ConnectionId from, const ControlMessage& message, TimePoint now);
    Outbox closed(ConnectionId connection, TimePoint now);
    Outbox tick(TimePoint now);
    std::optional<TimePoint> next_deadline() const;

    // True once the job is over and every agent has left.
    bool empty() const { return state_ == State::over && nodes_by_connection_.empty(); }

  private:
    enum class State { gathering, running, stopping, over };

    struct Node {
        Hello hello;
        ConnectionId connection = 0;
        bool connected = true;
        bool succeeded = false;
        bool gone = false;
        bool all_zero = true;
    };

    Outbox receive_hello(ConnectionId from, const Hello& hello, TimePoint now);
    Outbox receive_failure(Node& node, int round, Failure failure);
    Outbox receive_end(Node& node, const ControlMessage& message);
    std::optional<Refused> reason_to_refuse(const Hello& hello) const;
    Outbox start_round();
    Outbox first_failure(Failure failure);
    Outbox finish_if_over();
    Outbox waiting_to_all(TimePoint now);
    Waiting waiting() const;
    int exit_code() const;
    Node* find(ConnectionId connection);

    CoordinatorOptions options_;
    State state_ = State::gathering;
    TimePoint join_deadline_;
    std::optional<TimePoint> status_due_;
    std::optional<TimePoint> last_status_;
    std::map<int, Node> nodes_;  // by node rank
    std::map<ConnectionId, int> nodes_by_connection_;
    int round_ = 0;
    std::optional<Failure> cause_;
};

// `joined 1/3, missing node 1, node 2`; what an agent prints of a Waiting message.
std::string to_text(const Waiting& waiting);

}  // namespace ddprun
