// RendezvousLink connects an agent with its job's coordinator, wherever that is. The link hosts the
// coordinator where this agent is to do so, or finds out by etcd which agent does. When the coordinator is
// lost, the link finds or becomes the next one (quorum.hpp).
//
// Created, driven and destroyed by the agent on the thread of `executor`. Callbacks come from there.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/etcd/etcd_election.hpp"
#include "rendezvous/link/link_observer.hpp"
#include "rendezvous/link/port_search.hpp"
#include "rendezvous/server/rendezvous_server.hpp"

namespace ddprun {
inline namespace job {

struct RendezvousLinkOptions {
    Endpoint place;                           // of the coordinator, as the user gave it
    std::optional<PortSearchOptions> search;  // where `place` has one of several ports
    Hello hello;
    std::chrono::steady_clock::time_point join_deadline;
    bool failover = false;
    FreePorts free_ports;          // for a coordinator that this agent would host after another one
    std::optional<SecretKey> key;  // of the job; nothing: connections are plain
    std::optional<ElectionOptions> election;  // with it `place` is not known before
    // server_options makes the options of a coordinator that this agent hosts there; called whenever it does.
    std::function<RendezvousServerOptions(const Endpoint& here)> server_options;
};

class RendezvousLink {
  public:
    // kAnswerTime: how much longer a new coordinator may take to answer than its members take to notice the
    // loss of the old one.
    static constexpr std::chrono::milliseconds kAnswerTime{2'000};

    static std::unique_ptr<RendezvousLink> make(const boost::asio::any_io_executor& executor,
                                                RendezvousLinkOptions options, LinkObserver& observer);
    virtual ~RendezvousLink() = default;

    // Hosts the coordinator (throws as RendezvousServer does) from here on; not if another agent on this
    // machine does so at one of several ports.
    virtual void host() = 0;
    virtual bool hosts() const = 0;
    // Returns true if no other agent is left at the coordinator that this agent hosts, or it hosts none.
    virtual bool is_over() const = 0;
    // Returns where the coordinator is, and the store.
    virtual Endpoint place() const = 0;
    // Returns where this node's own workers find the coordinator while it is hosted here: on loopback where
    // that is possible.
    virtual Endpoint own_endpoint() const = 0;

    virtual void join() = 0;
    // Returns true if the link looks for another coordinator: then be_led() follows, or lost(). Called after
    // lost().
    virtual bool seek(const CoordinatorLoss& loss) = 0;

    // Returns whether this agent has no vote on which agent leads the job next, but knows members that do.
    // join() then calls one member after the other, for as long as the first join might have taken. Called
    // after lost(), before seek().
    virtual bool may_retry_members() const = 0;

    // caller_address() and the functions down to close() mean what those of CoordinatorClient do.
    virtual const CallerAddress& caller_address() const = 0;
    virtual std::optional<CoordinatorLoss> overdue_loss() const = 0;
    virtual void send(const ControlMessage& message) = 0;
    virtual void suspend(std::function<void()> done) = 0;
    virtual void resume() = 0;
    virtual void close(std::function<void()> on_closed) = 0;
    // Tells the election that the job is over here. See EtcdElection.
    virtual void withdraw(std::function<void()> done) = 0;
};

}  // namespace job
}  // namespace ddprun
