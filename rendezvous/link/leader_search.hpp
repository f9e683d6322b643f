// LeaderSearch finds another coordinator for an agent that has lost its job's: by the order of the last round's members
// (membership/succession.hpp), or as etcd decides.
//
// It keeps in mind whom the agent calls and follows, and when the search is over; the link carries its steps out, and
// tells it what has come of each. Created, driven and destroyed by RendezvousLink, on the thread of `executor`.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/membership/succession.hpp"

namespace ddprun::inline job {

// Never called from inside a function of the search but end(), so that the link may end its connection.
struct LeaderSearchSteps {
    // Ends the connection. True: those who followed a coordinator of this agent's are being told that it has come to
    // nothing; step() when they were.
    std::function<bool()> hang_up;
    // Ends that coordinator, too.
    std::function<void()> clear;
    // Goes to this member, or hosts if it is this agent itself.
    std::function<void(const Succession::Step& next)> go_to;
    // Asks etcd; nothing where the members' order decides. found() or step() when that says more.
    std::function<void(const Following& own, Succession::TimePoint deadline)> claim;
    std::function<void(const CoordinatorLoss& loss)> give_up;
};

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

}  // namespace ddprun::inline job
