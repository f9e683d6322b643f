// Coordinator: the one decision-maker of a job. Pure: messages and times come in, messages go out.
//
// It decides who takes part, assigns ranks, names the first failure, and says when the job is over.
//
// The first failure is the first that an agent told of; it stops the job at once. But if it is a worker's,
// another may turn out to have been before it (FailureOrder: what takes long is the kernel's work on a large
// process, not the news of its death), or to be the culprit by the words of those that failed (culprit.hpp).
//
// It is driven by one caller on one thread (RendezvousServer, or a simulated network in tests),
// which hands it each message with the connection it came from, tells it of closed connections, and calls
// tick() at next_deadline(). It never blocks, reads no clock, and knows nothing of sockets, workers or grace
// periods.
//
//   state       leaves it when
//   gathering   all nodes have said Hello → running; the join timeout passes → over
//   running     every node succeeded → over; a first failure → stopping
//   stopping    every node's workers are gone, or the node itself is
//               → pausing if the RestartPolicy says so, else over
//   pausing     the pause is over → running, with the next round; a signal, or a node is lost → over
//   over        (the caller stops once no connection is left, see empty())
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/coordinator/admission.hpp"
#include "rendezvous/coordinator/control_message.hpp"
#include "rendezvous/coordinator/failure_order.hpp"
#include "rendezvous/coordinator/restart_policy.hpp"

namespace ddprun {

struct CoordinatorOptions {
    std::string version;
    std::string run_id = "none";
    std::string job_id;
    int nnodes = 1;
    std::chrono::milliseconds join_timeout{900'000};
    RestartOptions restarts;
    unsigned jitter_seed = 0;  // of the pauses between rounds
    // What node 0's own agent will say. Others may come before it, but none may take its place or decide what
    // the job runs.
    std::optional<Hello> own_agent;
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
    // Messages in a round by which agents hear of single deaths elsewhere; of more their workers hear when
    // connections close.
    static constexpr std::size_t kMaxDeathsTold = 100'000;
    // Different refusals that node 0's agent hears of.
    static constexpr std::size_t kMaxRefusalsTold = 32;

    Coordinator(CoordinatorOptions options, TimePoint now);

    Outbox receive(ConnectionId from, const ControlMessage& message, TimePoint now);
    Outbox closed(ConnectionId connection, TimePoint now);
    Outbox tick(TimePoint now);
    std::optional<TimePoint> next_deadline() const;

    // Number of the round that runs or is about to; each one needs an empty store.
    int round() const { return round_; }

    // True once the job is over and every agent has left.
    bool empty() const { return state_ == State::over && nodes_by_connection_.empty(); }

  private:
    enum class State { gathering, running, stopping, pausing, over };

    struct Node {
        Hello hello;
        ConnectionId connection = 0;
        bool connected = true;
        bool ended = false;  // succeeded, while the round runs; gone, while it stops
        bool all_zero = false;
        bool is_gone = false;  // it said that nothing of this round's workers is left there
        int base_rank = 0;     // of this round, like the next two
        std::vector<RankEnd> ends;
        std::optional<Failure> failure;  // the first of the node

        bool has_rank(int rank) const {
            return rank >= base_rank && rank - base_rank < hello.local_world_size;
        }
    };

    Outbox receive_hello(ConnectionId from, const Hello& hello, TimePoint now);
    Outbox receive_failure(Node& node, int round, Failure failure, TimePoint now);
    Outbox receive_dying(Node& node, const WorkerDying& dying);
    Outbox receive_signal(Node& node, const AgentSignalled& signalled, TimePoint now);
    Outbox receive_end(Node& node, const ControlMessage& message, TimePoint now);
    std::optional<Refused> reason_to_refuse_now(const Hello& hello) const;
    Company company_of(const Hello& hello) const;
    Outbox refuse(ConnectionId from, const Hello& hello, const Refused& refused);
    std::string reached_at() const;
    Outbox start_round(TimePoint now);
    void add_evidence(Node& node, Failure failure);
    void hear_witnesses();
    std::optional<RankEnd> end_of(int rank) const;
    Outbox first_failure(Failure failure, TimePoint now);
    Outbox node_ended(Node& node, TimePoint now);
    Outbox all_ended(TimePoint now);
    Outbox pause_before_next_round(std::chrono::milliseconds delay, TimePoint now);
    Outbox finish(const std::string& message);
    Finish summary(const std::string& message) const;
    Outbox rank_ends() const;
    Outbox to_all(const ControlMessage& message) const;
    Outbox waiting_to_all(TimePoint now);
    Outbox time_out();
    Waiting waiting() const;
    int exit_code() const;
    Node* find(ConnectionId connection);

    CoordinatorOptions options_;
    RestartPolicy policy_;
    std::minstd_rand random_;
    State state_ = State::gathering;
    TimePoint join_deadline_;
    std::optional<TimePoint> status_due_;
    std::optional<TimePoint> last_status_;
    std::optional<TimePoint> pause_end_;
    std::map<int, Node> nodes_;  // by node rank
    std::map<ConnectionId, int> nodes_by_connection_;
    std::set<std::string> refusals_told_;
    std::vector<PeerRefused> refusals_untold_;  // while node 0's agent is not there
    std::size_t awaited_ = 0;                   // nodes that have not ended in this state
    int round_ = 0;
    TimePoint round_start_;
    std::chrono::milliseconds uptime_{0};  // of the round, until its first failure
    bool progressed_ = false;
    bool requeue_ = false;            // the workers of this round were sent a signal for that
    bool restart_cancelled_ = false;  // the user wants the job to end
    std::optional<Failure> cause_;
    FailureOrder order_;           // of this round
    std::size_t deaths_told_ = 0;  // messages, in this round
    std::vector<Restart> restarts_;
};

}  // namespace ddprun
