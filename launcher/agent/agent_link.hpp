// AgentLink is the node's way to the coordinator and the store of its job; the agent owns it and uses it on
// its thread.
//
//   hello_of() …    what the agent says of itself, and what it hosts the rendezvous with
//   JoinStatus      decides what is said while the agent joins, and when; without a clock: times are the
//                   caller's
//   JoinReporter    brings that to the log, and what else the coordinator has to say to this node's user
//   AgentLink       the link to the coordinator, which this agent hosts itself where that is due
#pragma once

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "launcher/agent/feature.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/agent/worker_network.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/output/launcher_log.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/link/rendezvous_link.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/net/resolver.hpp"
#include "rendezvous/net/socket_owner.hpp"
#include "rendezvous/server/rendezvous_server.hpp"

namespace ddprun {
inline namespace launch {

// JoinStatus is fed with each failed attempt and each word of the coordinator, and returns the line to print,
// or an empty one. The first moments of a start are silent. Afterwards each distinct cause and each change of
// the nodes that are there has one line, and every kReminderPeriod the last of these lines comes again. All
// lines say how long the agent has waited and how long it may. On a terminal there is one passing line
// instead, renewed every kUpdatePeriod.
class JoinStatus {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;
    using Duration = std::chrono::milliseconds;

    static constexpr Duration kReminderPeriod = std::chrono::seconds(30);
    static constexpr Duration kUpdatePeriod = std::chrono::seconds(1);
    // kFirstTroubleDelay: how long an agent that joins does not report trouble; after that each change is
    // reported.
    static constexpr std::chrono::seconds kFirstTroubleDelay{3};
    // kMaxCauses: how many distinct causes are printed; a resolver that words each failure anew must not fill
    // the screen.
    static constexpr std::size_t kMaxCauses = 32;

    // JoinStatus says nothing about trouble in the first `first_delay`; the agent gives up after `timeout`.
    // `advice` says what the user may have forgotten; reminders repeat it. Empty: none.
    JoinStatus(TimePoint start, Duration first_delay, Duration timeout, std::string advice);

    // Begins again after a round: nodes are awaited anew.
    void begin_again(TimePoint now);

    // Takes the cause for which an attempt to reach the coordinator failed.
    std::string trouble(const std::string& cause, TimePoint now);

    // Returns true if trouble is worth a line by now.
    bool speaks(TimePoint now) const { return now >= speaks_from_; }

    // Takes what the coordinator says about which nodes are there (the coordinator has waited before it said
    // so).
    std::string waiting(const Waiting& status, TimePoint now);

    // Takes the news that the job runs without this node, for an unknown time. No timeout counts then, and
    // nothing more is said.
    std::string parked(const Parked& status);

    // Returns the passing line as it is now; empty: none.
    std::string passing(TimePoint now) const;

    // Returns what the user of this node may have forgotten, or got wrong.
    static std::string advice_to(const LaunchOptions& options);

    // Takes the news that the coordinator hosted here refused another agent. Lines name that refusal until
    // another node joins.
    std::string refused(const PeerRefused& other);

    // Returns the end of a line for an agent that cannot host the rendezvous, because another process holds
    // the port: which process, where that can be seen, and what to do.
    static std::string port_taken(std::uint16_t port, const std::optional<PortOwner>& holder);

    // Returns the refusal of an agent that has given up, for this cause; `source`:
    // LaunchOptions::master_source.
    Refused given_up(const std::string& cause, const std::string& source) const;

    // Returns the refusal where the election says that there is no host for this agent.
    static Refused not_elected(const std::string& why);

    // Returns the refusal where the coordinator that this agent hosts cannot go on.
    static Refused host_failed(const std::string& what);

    // Returns when the next reminder is due; remind() returns its line. Without any news yet there is none.
    TimePoint reminder_due() const { return reminder_due_; }
    std::string remind(TimePoint now);

  private:
    std::string time_text(TimePoint::duration age) const;

    TimePoint start_;
    TimePoint speaks_from_;
    TimePoint reminder_due_;
    Duration timeout_;
    std::string advice_;
    std::string last_line_;  // said or not
    // awaited_ and the next three are the parts of last_line_, for a line that may be cut: the missing nodes,
    // how many are there, the newest refusal, the present nodes.
    std::string awaited_, count_, refused_, present_;
    int joined_ = 0;
    std::set<std::string> causes_;
};

// JoinReporter brings the status to the log: on a terminal as one line that is brought up to date, else as
// lines of their own. The file of --log-file has all lines in any case.
class JoinReporter {
  public:
    using TimePoint = JoinStatus::TimePoint;

    JoinReporter(LauncherLog& log, JoinStatus status)
        : log_(log), status_(std::move(status)), updates_(log.can_update()) {}

    // port_taken says that another process has the port at which this agent would host the rendezvous. Any
    // message that comes from there shows that the other process is a coordinator.
    void port_taken(std::uint16_t port) { taken_ = port; }
    void hear(const ControlMessage& message);
    // tell_loss says that the job has lost a node: the workers may take their whole grace to end, and the
    // report comes after that.
    void tell_loss(const Failure& cause);
    // Returns why the agent ends; nothing if it goes on. The agent ends if it would host, but its port is
    // held by a process that is no coordinator; or if it hosts, and stood still when the first round began.
    std::optional<Refused> met(const CoordinatorLoss& loss, bool is_host) const {
        if (is_host && loss.kind == CoordinatorLoss::Kind::given_up)
            return Refused{"this node left the job: " + loss.cause, kExitUnavailable};
        const bool is_stranger = taken_ && loss.kind == CoordinatorLoss::Kind::stranger;
        if (!is_stranger || !status_.speaks(TimePoint::clock::now())) return std::nullopt;
        return Refused{with_holder(loss.cause), kExitSystem};
    }

    // Logs trouble with its cause, as a line that stays: the passing line would cut it.
    void trouble(const std::string& cause) {
        const TimePoint now = TimePoint::clock::now();
        log_.trouble(status_.trouble(status_.speaks(now) ? with_holder(cause) : cause, now));
    }
    // Logs trouble with etcd. `is_host`: this agent has been elected, so it does not wait for etcd.
    void etcd_trouble(const std::string& cause, bool is_host) {
        if (!is_host) return trouble(harmless_line(cause));
        log_.info("this agent's key in etcd cannot be kept: " + harmless_line(cause) +
                  "; until it can, no other node can come or lead the job");
    }
    // Returns when look() has something to do.
    TimePoint next_look() const {
        const TimePoint reminder = status_.reminder_due();
        return updates_ ? std::min(reminder, TimePoint::clock::now() + JoinStatus::kUpdatePeriod) : reminder;
    }
    void look() {
        say(status_.remind(TimePoint::clock::now()));
        update();
    }
    // Ends the passing line: all nodes are there. Nodes that are awaited later begin a new wait.
    void end() {
        ended_ = true;
        if (updates_) log_.update({});
    }

    Refused given_up(const std::string& cause, const std::string& source) const {
        return status_.given_up(with_holder(cause), source);
    }

  private:
    std::string with_holder(const std::string& cause) const {
        return taken_ ? cause + "; " + JoinStatus::port_taken(*taken_, find_port_owner(*taken_)) : cause;
    }
    void say(const std::string& line) { updates_ ? log_.debug(line) : log_.info(line); }
    void update() {
        if (updates_) log_.update(status_.passing(TimePoint::clock::now()));
    }

    LauncherLog& log_;
    JoinStatus status_;
    bool updates_;
    bool ended_ = false;
    std::optional<std::uint16_t> taken_;
};

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
                                    options.join_timeout, JoinStatus::advice_to(options))) {}

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
