// AgentLink: this agent's link to the coordinator of its job, which it hosts itself where that is due; what the agent says of
// itself to the coordinator, and, on the host, what the coordinator asks of the others.
//
// It belongs to the agent and is used on its thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <optional>

#include "launcher/agent/feature.hpp"
#include "launcher/agent/join_status.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/output/launcher_log.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/link/rendezvous_link.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/server/rendezvous_server.hpp"

namespace ddprun::inline launch {

// `wants_rank_ends`: see Hello.
Hello hello_of(const LaunchOptions& options, bool wants_rank_ends);

// Listeners of this agent that have no port of their own may take these.
FreePorts free_ports_of(const LaunchOptions& options);

// Says what node 0 hosts the rendezvous with. It makes the job's id, which is different for every launch, also for two with the same --rdzv-id at the
// same time.
RendezvousServerOptions server_options_of(const LaunchOptions& options);

// Whether this node is to say before the start what all nodes would say alike: on a screen that they share, node 0.
bool speaks_for_all(const LaunchOptions& options);

// Whether this agent hosts the coordinator, if it is the first to do so.
bool may_host(const LaunchOptions& options);

// Is told what comes by the link.
class LinkObserver {
  public:
    virtual void hear(const ControlMessage& message) = 0;
    virtual void lose(const CoordinatorLoss& loss) = 0;
    virtual void handle(AgentEvent event) = 0;
    // This agent never becomes part of the job, or the job ends, for this reason.
    virtual void refuse(const Refused& why) = 0;
    // A coordinator takes over, and is to hear of this agent's workers before it is told that the agent follows.
    virtual void be_led() = 0;
    // From then on the coordinator may count this node as lost.
    virtual void lease_moves(const std::optional<LeaseEnd>& end) = 0;
    virtual void tell(const AgentNews& news) = 0;
    virtual AgentState state() const = 0;

  protected:
    ~LinkObserver() = default;
};

class AgentLink {
  public:
    // All of these outlive it. `options` are told where this agent hosts.
    AgentLink(const boost::asio::any_io_executor& executor, LaunchOptions& options, LauncherLog& log,
              JoinReporter& reporter, LinkObserver& observer)
        : executor_(executor), options_(options), log_(log), reporter_(reporter), observer_(observer) {}

    // First of all; `wants_rank_ends`: see Hello. Hosts the coordinator where that is due, and throws then as
    // RendezvousLink::host() does, unless another process has the port that may be its job's coordinator: it joins that.
    void make(bool wants_rank_ends);
    RendezvousLink* operator->() { return &*link_; }
    RendezvousLink& operator*() { return *link_; }

    // Tells where the coordinator is, and joins. If the name of that place is not known here yet, it waits for that, too:
    // this node may host all the same, or once the name is its own.
    void join();
    // The job is over here.
    void close();

  private:
    void host_if_due();
    void join_place();
    void tell_place();
    void name_is_known(bool is_here);
    RendezvousLinkEvents events();

    boost::asio::any_io_executor executor_;
    LaunchOptions& options_;
    LauncherLog& log_;
    JoinReporter& reporter_;
    LinkObserver& observer_;
    bool wants_rank_ends_ = false;
    std::unique_ptr<RendezvousLink> link_;
    std::optional<LateName> late_name_;
};

}  // namespace ddprun::inline launch
