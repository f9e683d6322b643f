// This is the node's way to the coordinator and the store of its job; it belongs to the agent and is used on
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
// or an empty one. It is silent during the first moments of a start; then one line for each distinct cause
// and for each change of who is there, and every kReminderPeriod the last of these again. All say how long it
// has been, and how long it may be. On a terminal the same is a passing line, brought up to date every
// kUpdatePeriod.
class JoinStatus {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;
    using Duration = std::chrono::milliseconds;

    static constexpr Duration kReminderPeriod = std::chrono::seconds(30);
    static constexpr Duration kUpdatePeriod = std::chrono::seconds(1);
    // Trouble is told of while an agent joins: not before this time, then on changes.
    static constexpr std::chrono::seconds kFirstTroubleDelay{3};
    // Distinct causes that are printed; a resolver that words each failure anew must not fill the screen.
    static constexpr std::size_t kMaxCauses = 32;

    // Nothing about trouble is said in the first `first_delay`; the agent gives up after `timeout`. `advice`
    // is what a user who waits in vain may have forgotten; it stands in reminders, empty for none.
    JoinStatus(TimePoint start, Duration first_delay, Duration timeout, std::string advice);

    // Nodes are awaited anew, after a round.
    void begin_again(TimePoint now);

    // An attempt to reach the coordinator failed with this cause.
    std::string trouble(const std::string& cause, TimePoint now);

    // True if trouble is worth a line by now.
    bool speaks(TimePoint now) const { return now >= speaks_from_; }

    // The coordinator says who is there (it has waited before it said so).
    std::string waiting(const Waiting& status, TimePoint now);

    // The job runs without this node, for as long as it will: no timeout is counted, nothing more is said.
    std::string parked(const Parked& status);

    // Returns the passing line as it is now; empty: none.
    std::string passing(TimePoint now) const;

    // Says what the user of this node may have forgotten, or got wrong.
    static std::string advice_to(const LaunchOptions& options);

    // The coordinator, which is here, refused another agent. Until others come this stays what people are
    // told.
    std::string refused(const PeerRefused& other);

    // Why an agent does not host the rendezvous that would, and what to do, as the end of a line: another
    // process holds its port, as far as that can be seen.
    static std::string port_taken(std::uint16_t port, const std::optional<PortOwner>& holder);

    // The agent has given up, for this cause; `source`: LaunchOptions::master_source.
    Refused given_up(const std::string& cause, const std::string& source) const;

    // There is no host for this agent, as the election says.
    static Refused not_elected(const std::string& why);

    // The coordinator that this agent hosts cannot go on.
    static Refused host_failed(const std::string& what);

    // When the next reminder is due, and its line; without any news yet there is none.
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
    // The same in parts, for a line that may be cut: who is not there, how many are, the newest refusal, and
    // who is there.
    std::string awaited_, count_, refused_, present_;
    int joined_ = 0;
    std::set<std::string> causes_;
};

// On a terminal the status is one line that is brought up to date, else there are lines of their own; the
// file of --log-file has all of them in any case.
class JoinReporter {
  public:
    using TimePoint = JoinStatus::TimePoint;

    JoinReporter(LauncherLog& log, JoinStatus status)
        : log_(log), status_(std::move(status)), updates_(log.can_update()) {}

    // This agent would host the rendezvous, but another process has the port; it is that of a coordinator
    // when something is heard from there.
    void port_taken(std::uint16_t port) { taken_ = port; }
    void hear(const ControlMessage& message);
    // The job has lost a node: the workers may take their whole grace to end, and the report comes after
    // that.
    void tell_loss(const Failure& cause);
    // Why the agent ends: it would host, and its port turned out, after some trying, to be a stranger's; or
    // it hosts, and stood still as the first round began. Nothing if it goes on.
    std::optional<Refused> met(const CoordinatorLoss& loss, bool is_host) const {
        if (is_host && loss.kind == CoordinatorLoss::Kind::given_up)
            return Refused{"this node left the job: " + loss.cause, kExitUnavailable};
        const bool is_stranger = taken_ && loss.kind == CoordinatorLoss::Kind::stranger;
        if (!is_stranger || !status_.speaks(TimePoint::clock::now())) return std::nullopt;
        return Refused{with_holder(loss.cause), kExitSystem};
    }

    // A cause is too long for a line that is cut, and stays to be read.
    void trouble(const std::string& cause) {
        const TimePoint now = TimePoint::clock::now();
        log_.trouble(status_.trouble(status_.speaks(now) ? with_holder(cause) : cause, now));
    }
    // `is_host`: nobody waits for etcd then.
    void etcd_trouble(const std::string& cause, bool is_host) {
        if (!is_host) return trouble(harmless_line(cause));
        log_.info("this agent's key in etcd cannot be kept: " + harmless_line(cause) +
                  "; until it can, no other node can come or lead the job");
    }
    // When look() has something to do.
    TimePoint next_look() const {
        const TimePoint reminder = status_.reminder_due();
        return updates_ ? std::min(reminder, TimePoint::clock::now() + JoinStatus::kUpdatePeriod) : reminder;
    }
    void look() {
        say(status_.remind(TimePoint::clock::now()));
        update();
    }
    // All nodes are there, and the passing line goes. Nodes that are awaited later are so from then on.
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

// `wants_rank_ends`: see Hello.
Hello hello_of(const LaunchOptions& options, bool wants_rank_ends);

// Says what node 0 hosts the rendezvous with. It makes the job's id, which is different for every launch,
// also for two with the same --rdzv-id at the same time.
RendezvousServerOptions server_options_of(const LaunchOptions& options);

// True if this node is to say before the start what all nodes would say alike: on a screen that they share,
// node 0 is.
bool speaks_for_all(const LaunchOptions& options);

// True if this agent hosts the coordinator, provided that it is the first to do so.
bool may_host(const LaunchOptions& options);

// The agent is told by its link what concerns its job; from the executor.
class AgentLinkObserver {
  public:
    virtual void hear(const ControlMessage& message) = 0;
    virtual void lose(const CoordinatorLoss& loss) = 0;
    // This agent never becomes part of the job, or the job ends, for this reason.
    virtual void refuse(const Refused& why) = 0;
    virtual void handle(AgentEvent event) = 0;
    // A new coordinator knows of this node what it is told now.
    virtual void be_led() = 0;
    virtual AgentState state() const = 0;

  protected:
    ~AgentLinkObserver() = default;
};

class AgentLink : private LinkObserver {
  public:
    // All of these outlive it. `options` are told where this agent hosts.
    AgentLink(AgentControls& agent, AgentLinkObserver& observer, LaunchOptions& options, LauncherLog& log)
        : agent_(agent),
          observer_(observer),
          options_(options),
          log_(log),
          reporter_(log, JoinStatus(std::chrono::steady_clock::now(), JoinStatus::kFirstTroubleDelay,
                                    options.join_timeout, JoinStatus::advice_to(options))) {}

    // It comes first of all; `wants_rank_ends`: see Hello. It hosts the coordinator where that is due, and
    // throws then as RendezvousLink::host() does, unless another process has the port that may be its job's
    // coordinator: it joins that.
    void make(bool wants_rank_ends);
    RendezvousLink* operator->() { return &*link_; }
    RendezvousLink& operator*() { return *link_; }
    JoinReporter& reporter() { return reporter_; }

    // Tells where the coordinator is, and joins. If the name of that place is not known here yet, it waits
    // for that, too: this node may host all the same, or once the name is its own.
    void join();
    // Returns where the workers of a round find the store. While the coordinator is here they run as long as
    // its lease does.
    WorkerStation begin_round(const RoundReady& round, WorkerNetwork& network);
    // The coordinator was lost: true if the link looks for another one, while the workers end.
    bool seek(const CoordinatorLoss& loss);
    // No worker of this node is left.
    void workers_gone();
    // The job is over here.
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
