// RendezvousServer serves the job's one port and its coordinator, on the node that hosts them.
//
// The server has two threads of its own: PortService's, which takes calls and serves the store, and
// CoordinatorService's. A busy store or launcher cannot delay what the coordinator has to say. Created by the
// host's agent, which joins without the port (call()). The socket is bound in the constructor and kept until
// the end.
//
// Thread rules: constructor, destructor and the public functions on the owner's thread.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "rendezvous/control/control_channel.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/server/port_calls.hpp"
#include "rendezvous/server/port_service.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/system/secret_key.hpp"

namespace ddprun {
inline namespace job {

struct RendezvousServerOptions {
    ListenPlan listen;       // the default: loopback only
    std::uint16_t port = 0;  // 0 takes one of `free_ports`
    FreePorts free_ports = {};
    // sockets: listening already; with them the three members above do not count.
    std::vector<OwnedDescriptor> sockets;
    CoordinatorOptions coordinator;
    // spared_descriptors: descriptors of this process that connections leave to others.
    std::size_t spared_descriptors = 0;
    // key: what agents on other machines must have. Nothing: none is asked for, and one that is shown is of
    // no use.
    std::optional<SecretKey> key = {};
};

// RendezvousServerEvents: called on the server's threads.
struct RendezvousServerEvents {
    std::function<void()> on_over;     // once: the job is over and all agents have left
    std::function<void()> on_elected;  // once: see Coordinator::is_elected()
    // on_wish: see Coordinator::wish(). Told whenever that changes, and before any other side hears of what
    // changed it.
    std::function<void(const std::optional<RecordWish>& wish)> on_wish;
    // on_lease: told whenever the lease changes, and before any other side hears of what changed it.
    std::function<void(const RoundLease& lease)> on_lease;
    // on_remark: something that the user of this node should know about the port; each sentence once.
    std::function<void(const std::string& sentence)> on_remark;
    std::function<void(const RefusedCaller& caller)> on_refused;  // as PortServiceEvents'
    // on_failed: once: an unexpected error, in these words. The server goes on, but the job should end.
    std::function<void(const std::string& what)> on_failed;
};

// RoundNews: a round that begins, or more agents in one that has begun.
struct RoundNews {
    bool is_new = false;
    std::vector<boost::asio::ip::address> machines;  // of the agents that are told
    bool through_doors = false;                      // their workers come to the store through them
};

// RoundAnnouncer: called before agents hear that a round begins; they wait until `done` is called, on the
// coordinator's thread.
using RoundAnnouncer = std::function<void(const RoundNews& news, std::function<void()> done)>;

// CoordinatorService is the Asio shell around the Coordinator: it has the agents' connections, the deadlines,
// and the order in which others hear of what the coordinator decides.
//
// RendezvousServer owns it; all functions are called on the thread that runs the executor, or while no thread
// runs it.
class CoordinatorService {
  public:
    // kMaxPendingBytes: bytes waiting to be written to one agent; a slower one is dropped.
    static constexpr std::size_t kMaxPendingBytes = 4 * 1024 * 1024;
    // kMaxConversations: agents at one time; more are closed at once.
    static constexpr std::size_t kMaxConversations = 65'536;

    CoordinatorService(boost::asio::io_context& context, const CoordinatorOptions& options,
                       RendezvousServerEvents events, RoundAnnouncer announcer);
    // Ends all conversations.
    ~CoordinatorService();
    CoordinatorService(const CoordinatorService&) = delete;
    CoordinatorService& operator=(const CoordinatorService&) = delete;

    // Serves an agent on another machine, or of another process. `socket` is its connection, of this
    // executor, and `entry` what it has said.
    void serve(boost::asio::ip::tcp::socket socket, AgentEntry entry, std::shared_ptr<PortCall> call);
    // Serves the host's own agent.
    void serve_own(std::shared_ptr<ControlChannel> channel);

    void learn(const RecordNews& news);

    // Returns, on any thread, whether `on_over` was called, or is about to be.
    bool is_over() const { return is_over_; }

  private:
    using ConnectionId = Coordinator::ConnectionId;
    struct Conversation {
        std::shared_ptr<ControlChannel> channel;
        bool is_own = false;                             // of the host's agent
        std::vector<boost::asio::ip::address> machines;  // addresses of the agent's machine
    };

    // Holds one conversation; without a call it is that of the host's own agent.
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
    RendezvousServerEvents events_;
    RoundAnnouncer announcer_;
    std::optional<RecordWish> wish_;
    bool is_elected_ = false;
    std::atomic<bool> is_over_ = false;
    RoundLease lease_;
    std::optional<int> announced_;   // the last round that agents were told of
    int unready_ = 0;                // rounds, or parts of one, that agents hear of when all is ready
    Coordinator::Outbox held_back_;  // what agents are told then
    std::unordered_map<ConnectionId, Conversation> conversations_;
    ConnectionId last_id_ = 0;
};

class RendezvousServer {
  public:
    // Binds and listens (throws as listen_tcp does), then serves from its own threads.
    RendezvousServer(RendezvousServerOptions options, const RendezvousServerEvents& events = {});

    // Stops at once: connections are closed, the threads are joined.
    ~RendezvousServer();

    std::uint16_t port() const { return own_endpoint_.port; }

    // Returns where this machine's own processes reach the server: on loopback where that is possible.
    const Endpoint& own_endpoint() const { return own_endpoint_; }

    // Returns whether `on_over` was called, or is about to be.
    bool is_over() const { return coordinator_.is_over(); }

    // Passes on what has come of the wish, as the host's agent says.
    void learn(const RecordNews& news);

    // Opens a conversation of the host's own agent with the coordinator; used on `agent`. The executor must
    // live until the conversation is closed.
    std::shared_ptr<ControlChannel> call(const boost::asio::any_io_executor& agent);

  private:
    std::vector<boost::asio::ip::tcp::acceptor> listeners(RendezvousServerOptions& options);
    PortServiceEvents port_events(const RendezvousServerEvents& events);
    RoundAnnouncer round_announcer();

    boost::asio::io_context port_context_{1};
    boost::asio::io_context control_context_{1};
    // control_work_ keeps the context running: an agent may come when no other is there, and nothing is
    // awaited.
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> control_work_ =
        boost::asio::make_work_guard(control_context_);
    Endpoint own_endpoint_;
    PortService port_;
    CoordinatorService coordinator_;
    std::thread port_thread_;
    std::thread control_thread_;
};

}  // namespace job
}  // namespace ddprun
