// LeaderSearch finds another coordinator for an agent that has lost its job's: by the order of the last
// round's members (membership/quorum.hpp), or as etcd decides.
//
// The search keeps in mind which member the agent calls and follows, and when the search is over. The link
// carries its steps out, and tells what has come of each. Created, driven and destroyed by RendezvousLink, on
// the thread of `executor`.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/membership/quorum.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
inline namespace job {

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

}  // namespace job
}  // namespace ddprun
