// AgentLink is the node's way to the coordinator and the store of its job, which this agent hosts itself
// where that is due; the agent owns it and uses it on its thread. hello_of() and server_options_of(): what
// the agent says of itself, and what it hosts the rendezvous with.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/feature.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/agent/worker_network.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/join/join_reporter.hpp"
#include "launcher/join/join_status.hpp"
#include "launcher/output/launcher_log.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/link/rendezvous_link.hpp"
#include "rendezvous/net/resolver.hpp"
#include "rendezvous/server/rendezvous_server.hpp"

namespace ddprun {
inline namespace launch {

// Returns what the user of this node may have forgotten, or got wrong, where other nodes do not come.
std::string advice_to(const LaunchOptions& options);

// Makes the Hello of this agent; `wants_rank_ends`: see Hello.
Hello hello_of(const LaunchOptions& options, bool wants_rank_ends);

// Returns what node 0 hosts the rendezvous with. The job's id is made here; it is different for every launch,
// even for two with the same --rdzv-id at the same time.
RendezvousServerOptions server_options_of(const LaunchOptions& options);

// Returns true if this node is to say before the start what all nodes would say alike: on a screen that they
// share, that is node 0.
bool speaks_for_all(const LaunchOptions& options);

// Returns true if this agent hosts the coordinator, provided that it is the first to do so.
bool may_host(const LaunchOptions& options);

// AgentLinkObserver is told by the link what concerns the agent's job; from the executor.
class AgentLinkObserver {
  public:
    virtual void hear(const ControlMessage& message) = 0;
    virtual void lose(const CoordinatorLoss& loss) = 0;
    // Tells for which reason this agent never becomes part of the job, or the job ends.
    virtual void refuse(const Refused& why) = 0;
    virtual void handle(AgentEvent event) = 0;
    // Tells that a new coordinator leads this node, and knows nothing of it but what it is told from now on.
    virtual void be_led() = 0;
    virtual AgentState state() const = 0;

  protected:
    ~AgentLinkObserver() = default;
};

class AgentLink : private LinkObserver {
  public:
    // AgentLink keeps references to all of these, which outlive it. AgentLink writes into `options` where the
    // coordinator is, once that is known.
    AgentLink(AgentControls& agent, AgentLinkObserver& observer, LaunchOptions& options, LauncherLog& log)
        : agent_(agent),
          observer_(observer),
          options_(options),
          log_(log),
          reporter_(log, JoinStatus(std::chrono::steady_clock::now(), JoinStatus::kFirstTroubleDelay,
                                    options.join_timeout, advice_to(options))) {}

    // Makes the link, before anything else; `wants_rank_ends`: see Hello. Hosts the coordinator where that is
    // due, and throws then as RendezvousLink::host() does. If another process has the port, perhaps the job's
    // coordinator, the agent joins there instead.
    void make(bool wants_rank_ends);
    RendezvousLink* operator->() { return &*link_; }
    RendezvousLink& operator*() { return *link_; }
    JoinReporter& reporter() { return reporter_; }

    // Tells where the coordinator is, and joins. The link also waits for the name of that place if it is not
    // known here yet. The node may host all the same, or host once the name turns out to be its own.
    void join();
    // Returns where the workers of a round find the store. While the coordinator is here the workers run as
    // long as its lease does.
    WorkerStation begin_round(const RoundReady& round, WorkerNetwork& network);
    // Takes the loss of the coordinator. Returns true if the link looks for another one, while the workers
    // end.
    bool seek(const CoordinatorLoss& loss);
    void workers_gone();
    // Closes the link: the job is over here.
    void close();

  private:
    void host_if_due();
    void join_place();
    void tell_place();
    void name_is_known(bool is_here);
    void hasten();
    void tell_lease();

    void hear(const ControlMessage& message) override;
    void trouble(const std::string& cause) override { reporter_.trouble(cause); }
    void lost(const CoordinatorLoss& loss) override { observer_.lose(loss); }
    void lease_moves(const std::optional<LeaseEnd>& end) override {
        lease_end_ = end;
        tell_lease();
    }
    void be_led() override { observer_.be_led(); }
    bool has_workers() const override {
        return observer_.state() == AgentState::stopping_leaderless ||
               observer_.state() == AgentState::running;
    }
    void leads() override {
        log_.info("this node leads the job now");
        agent_.tell(TookOver{});
    }
    void place_known() override;
    void election_trouble(const std::string& cause) override {
        reporter_.etcd_trouble(cause, link_->hosts());
    }
    void unelected(const std::string& why) override { observer_.refuse(JoinStatus::not_elected(why)); }
    void others_left() override { observer_.handle(AgentEvent::others_left); }
    void host_failed(const std::string& what) override {
        hasten();
        observer_.refuse(JoinStatus::host_failed(what));
    }
    void refused(const RefusedCaller& caller) override { agent_.tell(caller); }
    void say(const std::string& text) override { log_.info(text); }
    void step(const std::string& text) override { log_.debug(text); }

    AgentControls& agent_;
    AgentLinkObserver& observer_;
    LaunchOptions& options_;
    LauncherLog& log_;
    JoinReporter reporter_;
    bool wants_rank_ends_ = false;
    std::unique_ptr<RendezvousLink> link_;
    std::optional<LateName> late_name_;
    std::optional<LeaseEnd> lease_end_;                                 // as the link says
    std::optional<std::chrono::steady_clock::time_point> last_moment_;  // see hasten()
};

}  // namespace launch
}  // namespace ddprun
