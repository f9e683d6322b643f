// How an agent finds its job's coordinator: at one of several ports (PortSearch), or again when it is lost
// (LeaderSearch); and how it is found by those who look for it at its old place (RedirectNotice). All for
// RendezvousLink, on its thread.
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

// A link, and its searches, tell their agent this, from the executor.
class LinkObserver {
  public:
    // These four mean what the events of CoordinatorClient do. lost() comes only where seek() is to be asked,
    // or has not helped.
    virtual void hear(const ControlMessage& message) = 0;
    virtual void trouble(const std::string& cause) = 0;
    virtual void lost(const CoordinatorLoss& loss) = 0;
    virtual void lease_moves(const std::optional<LeaseEnd>& end) = 0;
    // A coordinator takes over, and is to hear of this agent's workers before it is told that the agent
    // follows.
    virtual void be_led() = 0;
    // Workers of the round that ended may be left.
    virtual bool has_workers() const = 0;
    // This agent hosts the coordinator that leads the job from now on.
    virtual void leads() = 0;
    // It is known by an election where the coordinator is; this agent hosts it or not.
    virtual void place_known() = 0;
    // These two mean what on_trouble and on_failed of EtcdElection do.
    virtual void election_trouble(const std::string& cause) = 0;
    virtual void unelected(const std::string& why) = 0;
    // The coordinator that this agent hosts has no other agent any more.
    virtual void others_left() = 0;
    // It cannot be relied upon any more, for this reason: the job is to end.
    virtual void host_failed(const std::string& what) = 0;
    virtual void refused(const RefusedCaller& caller) = 0;  // at the port that this agent hosts
    virtual void say(const std::string& text) = 0;          // to the user
    virtual void step(const std::string& text) = 0;         // for --verbose

  protected:
    ~LinkObserver() = default;
};

// An agent keeps in mind of its round what it would tell a coordinator that takes over, and until when its
// workers may run where it hosts. Pure.

// Says where a member would host the coordinator. Port 0: nowhere.
Endpoint meeting_place_of(const Member& member);
std::vector<Endpoint> meeting_places_of(const MemberList& list);

// JobMemory remembers the round, to tell it to a coordinator that takes over.
class JobMemory {
  public:
    explicit JobMemory(int node_rank) : node_rank_(node_rank) {}

    // Hears every message of the coordinator.
    void learn(const ControlMessage& message);

    // Another member leads the job until the next round; `own` is what this agent has told it.
    void learn_leader(const Following& own, int group_rank);
    // Gives the member that leads. Only where following() is something.
    int leader() const { return leader_.value_or(following_->last.host_rank); }

    // Gives what it knows as a member of the last round; nothing if there was none, or it is one that nobody
    // takes over.
    std::optional<Following> following() const;
    // Gives the newest list that it has heard of, whether it is on it or not.
    const std::optional<MemberList>& members() const { return members_; }

  private:
    void note_gone(int group_rank);

    int node_rank_;  // as its user gave it
    std::optional<MemberList> members_;
    std::optional<Following> following_;
    std::optional<int> leader_;  // if that is not the host of the last round
};

// HostLease knows until when the workers on the coordinator's own node may run without its word, as the
// coordinator says.
//
// Once it has ended the workers stand still, and are ended if the coordinator does not move it on: that does
// so when a quorum has said that the others did not go on meanwhile (heartbeat.hpp). A round that was to
// begin then does not. Created by RendezvousLink, used on its thread.
class HostLease {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    static constexpr const char* kEnded =
        "it stood still as a round began (stopped, or its machine was frozen), and the others may go on "
        "without it";

    void learn(const RoundLease& next) { last_ = next; }

    // The workers of this round may not be started.
    bool has_ended(int round, TimePoint now) const {
        return last_.end && last_.round == round && now >= last_.end->at;
    }

  private:
    RoundLease last_;
};

// Never called from inside a function of the search but end(), so that the link may end its connection.
struct LeaderSearchSteps {
    // Ends the connection. True: those who followed a coordinator of this agent's are being told that it has
    // come to nothing; step() when they were.
    std::function<bool()> hang_up;
    // Ends that coordinator, too.
    std::function<void()> clear;
    // Goes to this member, or hosts if it is this agent itself.
    std::function<void(const Succession::Step& next)> go_to;
    // Asks etcd; nothing where the members' order decides. found() or step() when that says more.
    std::function<void(const Following& own, Succession::TimePoint deadline)> claim;
    std::function<void(const CoordinatorLoss& loss)> give_up;
};

// LeaderSearch finds another coordinator for an agent that has lost its job's: by the order of the last
// round's members (membership/quorum.hpp), or as etcd decides.
//
// It keeps in mind whom the agent calls and follows, and when the search is over; the link carries its steps
// out, and tells it what has come of each. Created, driven and destroyed by RendezvousLink, on the thread of
// `executor`.
class LeaderSearch {
  public:
    // One call at another member; the next one is tried after that.
    static constexpr std::chrono::milliseconds kCallTimeout{1'000};
    // No member of the last round, though somebody may be there.
    static constexpr int kNobody = -1;

    LeaderSearch(const boost::asio::any_io_executor& executor, LeaderSearchSteps steps)
        : executor_(executor), steps_(std::move(steps)), pause_(executor) {}

    // The coordinator that `leader` hosted was lost.
    void begin(Following own, int leader, const CoordinatorLoss& loss);
    // The coordinator that was called was lost; the next step follows. `place`: where it was.
    void lose(const CoordinatorLoss& loss, const Endpoint& place);
    // The coordinator that was called was not reached, or does not lead.
    void pass_over(const CoordinatorLoss& loss);
    // Nothing more is tried.
    void end() {
        succession_.reset();
        follows_ = false;
        pause_.cancel();
    }

    bool is_on() const { return succession_.has_value(); }
    // This and the next one only while it is on.
    const Following& own() const { return succession_->own(); }
    std::optional<int> called() const { return called_; }
    bool follows() const { return is_on() && follows_; }
    // Tells whether the agent may follow the coordinator that was called, as one of this epoch.
    bool may_follow(int epoch) { return is_on() && succession_->promise(epoch); }
    // The agent follows it from now on; false if it did before.
    bool follow() { return !std::exchange(follows_, true); }

    // The next step, now or (from go_on()) when the link's own call has returned.
    void step();
    void go_on();
    // Etcd says who hosts: another agent, this one, or for this reason nobody.
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
    bool follows_ = false;       // and the agent follows it
    // The member that led, and where, as long as nobody knows whether it is dead.
    std::optional<std::pair<int, Endpoint>> unclear_;
    bool was_called_ = false;  // somebody, in vain, since etcd was asked last
    std::string last_cause_;   // why nobody leads
    std::shared_ptr<int> life_ = std::make_shared<int>(0);
};

// RedirectNotice tells who begins the job again at its old address that it runs elsewhere.
//
// After a takeover the coordinator is not where the command lines say. An agent that comes back to that
// address hosts a coordinator, and others come to it. The notice calls there once in each period, as long as
// it lives, at each of several ports where such an agent may be, and says where the job is. Nothing tells
// when somebody listens there, so this is one of the few places that poll. Owned by the RendezvousLink of the
// agent that hosts; on the thread of `executor`.

class RedirectNotice {
  public:
    // `key`: the job's, which who listens there must have; nothing: the word is said in clear.
    static constexpr std::chrono::milliseconds kPeriod{1'000};
    // One call, the resolver's time included.
    static constexpr std::chrono::milliseconds kCallTimeout{3'000};

    RedirectNotice(const boost::asio::any_io_executor& executor, std::vector<Endpoint> old_places,
                   const JobMoved& word, const std::optional<SecretKey>& key);
    ~RedirectNotice();

  private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

// An agent finds its job's coordinator at one of several ports, or takes one of them for it: a job whose user
// asked for no port by number is at the first one that was free on its host.

// PortWalk says at which port an agent looks next, and what it has met. Each port gets a call; where another
// job is, or another program, or nobody, the next one is called, round and round, with a growing pause before
// each round. Pure.
class PortWalk {
  public:
    static constexpr std::chrono::milliseconds kFirstPause{10};
    static constexpr std::chrono::milliseconds kLongestPause{1'000};

    // `count` is one at least.
    PortWalk(std::uint16_t first, int count) : first_(first), met_(static_cast<std::size_t>(count)) {}

    std::uint16_t port() const { return static_cast<std::uint16_t>(first_ + next_); }
    std::vector<std::uint16_t> ports() const;

    // Nobody takes calls at port(), for this cause; or somebody does, and is `what` ("belongs to another
    // job").
    void pass_nobody(const std::string& cause);
    void pass_stranger(const std::string& what);

    // Tells whether every port was called since the round began.
    bool has_ended_round() const { return next_ == 0; }
    std::chrono::milliseconds pause() const;

    // Says in one line where the job was not found.
    std::string text() const;

  private:
    void pass();

    std::uint16_t first_;
    std::size_t next_ = 0;
    std::chrono::milliseconds pause_{0};  // before the next round
    std::vector<std::string> met_;        // by port; empty: nobody, when it was called last
    std::string cause_;                   // of the last port where nobody is
};

// HostClaim is had by one of the agents of a job on a machine at most, which hosts the coordinator where its
// port is not known beforehand; the kernel takes it back when that agent ends. It is taken in the network
// namespace, where ports are, too.
class HostClaim {
  public:
    // False: another agent of this user has it. A name that another user has is no claim: the next one is
    // taken. Throws Error where there is none left.
    bool take(const std::string& run_id);

  private:
    OwnedDescriptor holder_;
};

struct PortSearchOptions {
    Endpoint first;  // and the next ports
    int ports = 1;
    std::optional<PortRange> range;  // of which they are, as the user gave it
    // It hosts without asking whether another agent of this job does so on this machine.
    bool has_claim_to_host = false;
    Hello hello;
    CoordinatorClient::TimePoint deadline;
};

struct PortSearchEvents {
    // Call there, with a client of its own; what comes of it is told to the search.
    std::function<void(const CoordinatorClientOptions& options)> call;
    // The job is not at that port: end that call.
    std::function<void()> drop;
    // Trouble is reported after each round, and that the coordinator was not reached when the deadline has
    // passed.
    LinkObserver& observer;
};

// PortSearch calls, or hosts, where PortWalk says. Owned and used by RendezvousLink, on the agent's thread,
// as long as the agent has not been in a round.
class PortSearch {
  public:
    // One call to where nobody answers.
    static constexpr std::chrono::milliseconds kCallTimeout{1'000};
    // A coordinator without heartbeats says its first word after a while; this is how much longer it may
    // take.
    static constexpr std::chrono::milliseconds kAnswerTime{2'000};

    PortSearch(const boost::asio::any_io_executor& executor, PortSearchOptions options,
               PortSearchEvents events);

    // Gives where the job may be, and where it was found or looked for last.
    std::vector<Endpoint> places() const;
    Endpoint place() const { return at(walk_.port()); }

    // Calls `host` with one place after the other until its port is free (it throws address_in_use where it
    // is not; so does this at the last one). Not if another agent on this machine hosts.
    void host(const std::function<void(const Endpoint&)>& host,
              const std::function<void(const std::string&)>& on_step);

    void call_next();

    // Tells of trouble, a loss or a message whether it concerned the search only.
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
    bool is_heard_ = false;   // somebody of this job, by the last call
    bool is_passed_ = false;  // that call is of no interest any more
    bool has_ended_ = false;
    std::shared_ptr<int> life_ = std::make_shared<int>(0);
};

}  // namespace job
}  // namespace ddprun
