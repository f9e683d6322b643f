// CoordinatorService is the Asio shell around the Coordinator: it has its agents' connections, its deadlines, and the order in
// which others hear of what it decides.
//
// Owned by RendezvousServer: everything on the thread that runs the executor, or while nobody runs it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/control/control_channel.hpp"
#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun::inline job {

struct AgentEntry;
class PortCall;

// RoundNews tells of a round that begins, or of more agents in one that has.
struct RoundNews {
    bool is_new = false;
    std::vector<boost::asio::ip::address> machines;  // of the agents that are told
    bool through_doors = false;                      // their workers come to the store by way of them
};

// They are called on its thread.
struct CoordinatorServiceEvents {
    std::function<void()> on_over;     // once: the job is over and all agents have left
    std::function<void()> on_elected;  // once: see Coordinator::is_elected()
    // See Coordinator::wish(). Told whenever that changes, and before anybody else hears of what changed it.
    std::function<void(const std::optional<RecordWish>& wish)> on_wish;
    // Told whenever it changes, and before anybody else hears of what changed it.
    std::function<void(const RoundLease& lease)> on_lease;
    // Agents are about to hear that a round begins, and wait until `done` is called, on this thread.
    std::function<void(const RoundNews& news, std::function<void()> done)> on_round;
};

class CoordinatorService {
  public:
    // Bytes waiting to be written to one agent; a slower one is dropped.
    static constexpr std::size_t kMaxPendingBytes = 4 * 1024 * 1024;
    // Agents at one time; more are closed at once.
    static constexpr std::size_t kMaxConversations = 65'536;

    CoordinatorService(boost::asio::io_context& context, const CoordinatorOptions& options,
                       CoordinatorServiceEvents events);
    // Ends all conversations.
    ~CoordinatorService();
    CoordinatorService(const CoordinatorService&) = delete;
    CoordinatorService& operator=(const CoordinatorService&) = delete;

    // Serves an agent on another machine, or of another process: its connection, of this executor, and what it has said.
    void serve(boost::asio::ip::tcp::socket socket, AgentEntry entry, std::shared_ptr<PortCall> call);
    // Serves the host's own agent.
    void serve_own(std::shared_ptr<ControlChannel> channel);

    void learn(const RecordNews& news);

  private:
    using ConnectionId = Coordinator::ConnectionId;
    struct Conversation {
        std::shared_ptr<ControlChannel> channel;
        bool is_own = false;                             // of the host's agent
        std::vector<boost::asio::ip::address> machines;  // addresses of the one where the agent is
    };

    // A conversation without a call is that of the host's own agent.
    boost::asio::awaitable<void> converse(std::shared_ptr<ControlChannel> channel,
                                          std::optional<boost::asio::ip::address> remote,
                                          std::shared_ptr<PortCall> call);
    void settle(ConnectionId id, PortCall& call);
    void note_machine(ConnectionId id, const Hello& hello);
    bool is_false_own(const ControlMessage& message) const;
    void deliver(const Coordinator::Outbox& outbox);
    void announce_round(const Coordinator::Outbox& outbox);
    void send_all(const Coordinator::Outbox& outbox);
    static Welcome seen_welcome(Welcome welcome, const Conversation& conversation);
    void arm_deadline();

    boost::asio::io_context& context_;
    std::optional<Hello> own_agent_;
    HeartbeatTerms heartbeats_;
    Coordinator coordinator_;
    boost::asio::steady_timer deadline_;
    std::optional<Coordinator::TimePoint> armed_for_;
    CoordinatorServiceEvents events_;
    std::optional<RecordWish> wish_;
    bool is_elected_ = false;
    bool is_over_ = false;
    RoundLease lease_;
    std::optional<int> announced_;   // the last round that agents were told of
    int unready_ = 0;                // rounds, or parts of one, of which they will be told when all is ready
    Coordinator::Outbox held_back_;  // meanwhile
    std::unordered_map<ConnectionId, Conversation> conversations_;
    ConnectionId last_id_ = 0;
};

}  // namespace ddprun::inline job
