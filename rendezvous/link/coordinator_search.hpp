// PortSearch finds an agent's coordinator at one of several ports, LeaderSearch finds another one when it is
// lost, and RedirectNotice tells agents at the old place where it is now. RendezvousLink uses all three on
// its thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/membership/quorum.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/server/refused_caller.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/system/secret_key.hpp"

namespace ddprun {
inline namespace job {

// LinkObserver: what a link, and its searches, tell their agent, from the executor.
class LinkObserver {
  public:
    // hear(), trouble(), lost() and lease_moves() mean what the events of CoordinatorClient do. lost() comes
    // only where the agent has to call seek(), or seek() has not helped.
    virtual void hear(const ControlMessage& message) = 0;
    virtual void trouble(const std::string& cause) = 0;
    virtual void lost(const CoordinatorLoss& loss) = 0;
    virtual void lease_moves(const std::optional<LeaseEnd>& end) = 0;
    // Tells that a coordinator takes over, which is to hear of this agent's workers before it is told that
    // the agent follows.
    virtual void be_led() = 0;
    // Returns whether workers of the round that ended may be left.
    virtual bool has_workers() const = 0;
    // Tells that this agent hosts the coordinator that leads the job from now on.
    virtual void leads() = 0;
    // Tells that an election has said where the coordinator is; this agent hosts it or not.
    virtual void place_known() = 0;
    // election_trouble() and unelected() mean what on_trouble and on_failed of EtcdElection do.
    virtual void election_trouble(const std::string& cause) = 0;
    virtual void unelected(const std::string& why) = 0;
    // Tells that the coordinator that this agent hosts has no other agent any more.
    virtual void others_left() = 0;
    // Tells that the coordinator hosted here cannot be relied upon any more, for this reason: the job is to
    // end.
    virtual void host_failed(const std::string& what) = 0;
    virtual void refused(const RefusedCaller& caller) = 0;  // at the port that this agent hosts
    virtual void say(const std::string& text) = 0;          // to the user
    virtual void step(const std::string& text) = 0;         // for --verbose

  protected:
    ~LinkObserver() = default;
};

// Returns where a member would host the coordinator. Port 0: nowhere.
Endpoint meeting_place_of(const Member& member);
std::vector<Endpoint> meeting_places_of(const MemberList& list);

// JobMemory remembers the agent's round, to tell it to a coordinator that takes over. Pure.
class JobMemory {
  public:
    explicit JobMemory(int node_rank) : node_rank_(node_rank) {}

    // Notes every message of the coordinator.
    void learn(const ControlMessage& message);

    // Notes that another member leads the job until the next round; `own` is what this agent has told it.
    void learn_leader(const Following& own, int group_rank);
    // Returns the member that leads. Only where following() is something.
    int leader() const { return leader_.value_or(following_->last.host_rank); }

    // Returns what this agent knows as a member of the last round. Nothing if there was no round, or the job
    // cannot be taken over.
    std::optional<Following> following() const;
    // Returns the newest list that this agent has heard of, whether it is on the list or not.
    const std::optional<MemberList>& members() const { return members_; }

  private:
    void note_gone(int group_rank);

    int node_rank_;  // as the node's user gave it
    std::optional<MemberList> members_;
    std::optional<Following> following_;
    std::optional<int> leader_;  // if the leader is not the host of the last round
};

// HostLease: until when the workers on the coordinator's own node may run without its word, as the
// coordinator says. Pure.
//
// Once the lease has ended the workers stand still, and are ended if the coordinator does not move it on. The
// coordinator does so when a quorum has said that the others did not go on meanwhile (heartbeat.hpp). A round
// that was to begin then does not. Created by RendezvousLink, used on its thread.
class HostLease {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    static constexpr const char* kEnded =
        "it stood still as a round began (stopped, or its machine was frozen), and the others may go on "
        "without it";

    void learn(const RoundLease& next) { last_ = next; }

    // Returns whether the workers of this round may not be started.
    bool has_ended(int round, TimePoint now) const {
        return last_.end && last_.round == round && now >= last_.end->at;
    }

  private:
    RoundLease last_;
};

// LeaderSearchSteps: what a search has its link do. lose(), pass_over() and go_on() call none of the steps
// directly: the link may call them from a callback of the connection that a step ends.
struct LeaderSearchSteps {
    // hang_up ends the connection. Returns true if agents that followed this agent's own coordinator are now
    // being told that it does not lead; step() is called when they were told.
    std::function<bool()> hang_up;
    // clear ends the connection, and the coordinator that this agent hosts.
    std::function<void()> clear;
    // go_to goes to this member, or hosts if it is this agent itself.
    std::function<void(const Succession::Step& next)> go_to;
    // claim asks etcd; empty where the members' order decides. What etcd says comes by go_to(), lead(),
    // go_on() or fail().
    std::function<void(const Following& own, Succession::TimePoint deadline)> claim;
    std::function<void(const CoordinatorLoss& loss)> give_up;
};

// LeaderSearch finds another coordinator for an agent that has lost its job's: by the order of the last
// round's members (membership/quorum.hpp), or as etcd decides.
//
// The search keeps in mind which member the agent calls and follows, and when the search is over. The link
// carries its steps out, and tells what has come of each. Created, driven and destroyed by RendezvousLink, on
// the thread of `executor`.
class LeaderSearch {
  public:
    // kCallTimeout: for one call at another member; the next one is tried after that.
    static constexpr std::chrono::milliseconds kCallTimeout{1'000};
    // kNobody: no member of the last round, though there may be another coordinator.
    static constexpr int kNobody = -1;

    LeaderSearch(const boost::asio::any_io_executor& executor, LeaderSearchSteps steps)
        : executor_(executor), steps_(std::move(steps)), pause_(executor) {}

    // Begins a search: the coordinator that `leader` hosted was lost.
    void begin(Following own, int leader, const CoordinatorLoss& loss);
    // Goes on with the next step, since the coordinator that was called was lost. `place`: where it was.
    void lose(const CoordinatorLoss& loss, const Endpoint& place);
    // Goes on, since the coordinator that was called was not reached, or does not lead.
    void pass_over(const CoordinatorLoss& loss);
    // Ends the search: nothing more is tried.
    void end() {
        succession_.reset();
        follows_ = false;
        pause_.cancel();
    }

    bool is_on() const { return succession_.has_value(); }
    // Returns what the agent tells of itself. own() and called() may be called only during a search.
    const Following& own() const { return succession_->own(); }
    std::optional<int> called() const { return called_; }
    bool follows() const { return is_on() && follows_; }
    // Returns whether the agent may follow the coordinator that was called, as one of this epoch.
    bool may_follow(int epoch) { return is_on() && succession_->promise(epoch); }
    // Notes that the agent follows that coordinator from now on; false if it did before.
    bool follow() { return !std::exchange(follows_, true); }

    // Takes the next step, now or (from go_on()) when the link's own call has returned.
    void step();
    void go_on();
    // Goes on as etcd says: another agent hosts (go_to()), this one does (lead()), or for this reason none
    // (fail()).
    void go_to(const Endpoint& host);
    void lead();
    void fail(const std::string& why);

  private:
    void look();
    void step_after(std::chrono::milliseconds pause);
    template <typename Then>
    void wait(std::chrono::milliseconds pause, Then then);
    void take(const Succession::Step& next);

    boost::asio::any_io_executor executor_;
    LeaderSearchSteps steps_;
    boost::asio::steady_timer pause_;
    std::optional<Succession> succession_;
    std::optional<int> called_;  // the member that is being asked
    bool follows_ = false;       // and the agent follows that member
    // unclear_: the member that led, and where, as long as it is not known whether it is dead.
    std::optional<std::pair<int, Endpoint>> unclear_;
    bool was_called_ = false;  // a member, in vain, since etcd was asked last
    std::string last_cause_;   // why no member leads
    std::shared_ptr<int> life_ = std::make_shared<int>(0);
};

// RedirectNotice tells an agent that begins the job again at its old address that the job runs elsewhere.
//
// After a takeover the coordinator is not where the command lines say. An agent that comes back to that
// address hosts a coordinator, and others come to it. The notice calls there once in each period, as long as
// it lives, and says where the job is. With several ports it calls at each where such an agent may be. No
// event tells when a process listens there, hence this is one of the few places that poll. Owned by the
// RendezvousLink of the agent that hosts; used on the thread of `executor`.

class RedirectNotice {
  public:
    // kPeriod: from one call to the next.
    static constexpr std::chrono::milliseconds kPeriod{1'000};
    // kCallTimeout: for one call, the resolver's time included.
    static constexpr std::chrono::milliseconds kCallTimeout{3'000};

    // RedirectNotice begins to call. `key`: the job's, which the listener there must have; nothing: the word
    // is said in clear.
    RedirectNotice(const boost::asio::any_io_executor& executor, std::vector<Endpoint> old_places,
                   const JobMoved& word, const std::optional<SecretKey>& key);
    ~RedirectNotice();

  private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

// PortWalk says at which port an agent looks next, and what it has met. A job without a given port is at the
// first one that was free on its host. Each port gets a call. Where another job is, or another program, or
// nothing, the next one is called, round and round, with a growing pause before each round. Pure.
class PortWalk {
  public:
    static constexpr std::chrono::milliseconds kFirstPause{10};
    static constexpr std::chrono::milliseconds kLongestPause{1'000};

    // PortWalk over `count` ports, which is one at least.
    PortWalk(std::uint16_t first, int count) : first_(first), met_(static_cast<std::size_t>(count)) {}

    std::uint16_t port() const { return static_cast<std::uint16_t>(first_ + next_); }
    std::vector<std::uint16_t> ports() const;

    // Passes port(), where nothing takes calls, for this cause. pass_stranger(): where the listener is `what`
    // ("belongs to another job").
    void pass_nobody(const std::string& cause);
    void pass_stranger(const std::string& what);

    // Returns whether every port was called since the round began.
    bool has_ended_round() const { return next_ == 0; }
    std::chrono::milliseconds pause() const;

    // Returns in one line where the job was not found.
    std::string text() const;

  private:
    void pass();

    std::uint16_t first_;
    std::size_t next_ = 0;
    std::chrono::milliseconds pause_{0};  // before the next round
    std::vector<std::string> met_;        // by port; empty: nothing, when it was called last
    std::string cause_;                   // of the last port where nothing takes calls
};

// HostClaim: a claim that at most one agent of a job has on a machine. Where the port is not known
// beforehand, the agent with the claim hosts the coordinator. The kernel takes the claim back when that agent
// ends. Claims, like ports, belong to the network namespace.
class HostClaim {
  public:
    // Returns false if another agent of this user has the claim. Where another user holds the claim's name,
    // the next name is taken. Throws Error where there is none left.
    bool take(const std::string& run_id);

  private:
    OwnedDescriptor holder_;
};

struct PortSearchOptions {
    Endpoint first;  // and the next ports
    int ports = 1;
    std::optional<PortRange> range;  // of which they are, as the user gave it
    // has_claim_to_host: hosts without asking whether another agent of this job does so on this machine.
    bool has_claim_to_host = false;
    Hello hello;
    CoordinatorClient::TimePoint deadline;
};

struct PortSearchEvents {
    // call: call there, with a client of its own; what comes of it is told to the search.
    std::function<void(const CoordinatorClientOptions& options)> call;
    // drop: the job is not at that port; end that call.
    std::function<void()> drop;
    // observer is told of trouble after each round, and of the loss when the deadline has passed without a
    // coordinator.
    LinkObserver& observer;
};

// PortSearch calls, or hosts, where PortWalk says. Owned and used by RendezvousLink, on the agent's thread,
// as long as the agent has not been in a round.
class PortSearch {
  public:
    // kCallTimeout: for one call to where nothing answers.
    static constexpr std::chrono::milliseconds kCallTimeout{1'000};
    // kAnswerTime: how much longer than Roster::kFirstStatusDelay the coordinator's first word may take.
    static constexpr std::chrono::milliseconds kAnswerTime{2'000};

    PortSearch(const boost::asio::any_io_executor& executor, PortSearchOptions options,
               PortSearchEvents events);

    // Returns where the job may be. place(): where it was found or looked for last.
    std::vector<Endpoint> places() const;
    Endpoint place() const { return at(walk_.port()); }

    // Calls `host` with one place after the other until its port is free. `host` throws address_in_use where
    // it is not, and at the last one so does this function. Calls nothing if another agent on this machine
    // hosts.
    void host(const std::function<void(const Endpoint&)>& host,
              const std::function<void(const std::string&)>& on_step);

    void call_next();

    // Returns whether a trouble, a loss or a message concerned the search only.
    bool takes_trouble(const std::string& cause);
    bool takes(const CoordinatorLoss& loss);
    bool takes(const ControlMessage& message);

    void end();
    bool has_ended() const { return has_ended_; }

  private:
    Endpoint at(std::uint16_t port) const { return {options_.first.host, port}; }
    void pass();
    [[noreturn]] void fail_all_taken(const std::string& last) const;

    boost::asio::steady_timer pause_;
    PortSearchOptions options_;
    HostClaim claim_;
    PortWalk walk_;
    PortSearchEvents events_;
    bool is_heard_ = false;   // the last call has met this job
    bool is_passed_ = false;  // that call is of no interest any more
    bool has_ended_ = false;
    std::shared_ptr<int> life_ = std::make_shared<int>(0);
};

}  // namespace job
}  // namespace ddprun
