// Lifeline: how a rank hears at once of what happens to the others, whatever it is doing. Each communicator
// has a Lifeline.
//
// The ranks form a ring of connections that carry only short notices (lifeline_state.hpp), apart from the
// data, so a notice never waits behind a full buffer. A thread of the Family reads the notices and hands them
// on. A rank that computes, or is stuck in a call, thus still tells its neighbours which rank died. The same
// thread accepts the data connections, also while this rank is busy.
//
// The order on every path is: hand the notice on first, then let this rank's own call fail. A rank that gives
// up and exits has told the culprit's name before its own connections close, and is never taken for the
// culprit.
//
// The agent also tells a Lifeline of ranks that died (death_news.hpp), sooner than their connections do.
// Notices that had arrived by the ring count first. Once the communicator has ended, the agent must not
// announce this rank's death any more: the announcement would overtake the notice of why the rank gave up.
//
// All public members may be called from any thread, except take_news() and take_data(): those belong to the
// thread that runs the operations. The thread of the Family blocks all signals.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/liveness/arrivals.hpp"
#include "collectives/liveness/death_news.hpp"
#include "collectives/liveness/end_observer.hpp"
#include "collectives/liveness/lifeline_state.hpp"
#include "collectives/liveness/link_acceptor.hpp"
#include "collectives/liveness/origin.hpp"
#include "collectives/liveness/ring_neighbours.hpp"
#include "collectives/wire/event.hpp"
#include "collectives/wire/frame.hpp"
#include "collectives/wire/membership.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun {
inline namespace detail {

// Family: the communicators of one process that come from each other by split and subgroup.
//
// A Family has one listener, lock and thread, which accepts connections and reads the rings of all, so
// another communicator costs only its ring. The Family ends with its last communicator.
//
// A process that is dead is dead in all communicators, but each hears of it by ways of its own, at its own
// time. A rank that heard in one communicator, and therefore left the others in order, would be blamed there
// for the dead rank by ranks that have not heard yet. The end of one communicator by a death thus ends all
// that the dead process is in, before a call of this rank can fail. Any other end concerns one communicator
// only. Processes are numbered by their ranks in the first communicator.
//
// While ranks split, the new communicator's ring is open. A rank that gives up because the old communicator
// ended may be unable to tell others, which then take it for dead. Ranks of the new communicator therefore
// ask the old one (Origin::parent).
class Family final : private DeathNews::Listener {
  public:
    Family(TcpListener listener, const std::optional<SecretKey>& key, std::shared_ptr<DeathNews> death_news);
    ~Family();

  private:
    friend class Lifeline;

    // Adds a lifeline; the first one starts the thread.
    void add(Lifeline& lifeline);
    void remove(Lifeline& lifeline) {
        {
            const std::lock_guard lock(mutex_);
            std::erase(lifelines_, &lifeline);
        }
        // The thread is woken, since a connection that it is just polling would not be closed.
        wake_.signal();
    }
    void life_lost(std::uint64_t life) override {
        {
            const std::lock_guard lock(mutex_);
            lost_lives_.push_back(life);
        }
        wake_.signal();
    }
    HelloAnswer judge(const LinkHello& hello, bool proven);
    void run();
    void accept();

    const std::shared_ptr<DeathNews> death_news_;  // null: no agent announces deaths
    Event wake_;
    LinkAcceptor acceptor_;  // used by the thread alone
    std::mutex mutex_;       // shared by all lifelines; guards the members below, except the thread
    std::vector<Lifeline*> lifelines_;
    std::vector<int> dead_;
    std::vector<std::uint64_t> lost_lives_;
    bool stopping_ = false;
    std::thread thread_;
};

class Lifeline {
  public:
    // Returns what a member function of the state returns. (Defined first, since its type is deduced.)
    template <class Member, class... Arguments>
    auto state(Member member, Arguments... arguments) const {
        const std::lock_guard lock(mutex_);
        return std::invoke(member, state_, arguments...);
    }
    // Carries out the sendings that a member function of the state returns.
    template <class Member, class... Arguments>
    void change(Member member, const Arguments&... arguments) {
        const std::lock_guard lock(mutex_);
        carry_out(std::invoke(member, state_, arguments...));
        // The member function may have led to a verdict.
        if (state_.verdict()) tell_news();
    }

    // Makes the lifeline of `membership`, which is borrowed. A communicator that comes from another has no
    // listener of its own, but uses its family's.
    Lifeline(const Membership& membership, std::optional<TcpListener> listener, const Origin& origin = {});
    // Closes all connections; without leave() the other ranks take this one for dead.
    ~Lifeline() { family_->remove(*this); }

    // Adds the connection that this rank dialled to its right neighbour.
    void add_neighbour(TcpLink link) {
        const std::lock_guard lock(mutex_);
        ring_.add(std::move(link), state_.for_new_neighbour());
        family_->wake_.signal();
    }
    const Membership& membership() const noexcept { return membership_; }
    // Returns the ranks by their numbers in the job; empty where those are not known, as where a launcher has
    // given ranks other numbers.
    std::vector<int> job_ranks() const { return has_job_ranks_ ? processes_ : std::vector<int>(); }
    const std::shared_ptr<DeathNews>& death_news() const noexcept { return family_->death_news_; }
    // Returns true once the left neighbour has dialled this rank.
    bool has_left_neighbour() const {
        const std::lock_guard lock(mutex_);
        return arrivals_.has_left_neighbour();
    }

    // Completes the join: from now on the family hears of deaths in this communicator. (Before, a rank that
    // leaves looks dead.)
    void complete_join();
    // Returns the communicator that this one is split from, until complete_join(); else null.
    // verdict_of_parent() says why the parent has ended, if it has.
    Lifeline* parent() const noexcept { return parent_; }
    std::optional<Verdict> verdict_of_parent() const;

    // Returns the data connection that `peer` has dialled to this rank as its `lane`, once; nothing while
    // there is none.
    std::optional<TcpLink> take_data(int peer, int lane) {
        const std::lock_guard lock(mutex_);
        return arrivals_.take_data(peer, lane);
    }
    // Returns true if a caller that says it is `peer` on that lane has not proven it yet.
    bool may_bring_data(int peer, int lane) const {
        const std::lock_guard lock(mutex_);
        return arrivals_.may_bring_data(peer, lane);
    }

    // Returns a descriptor that becomes readable when anything below may have changed; take_news() makes it
    // unreadable again.
    int news_descriptor() const noexcept { return news_.descriptor(); }
    void take_news() { news_.clear(); }
    // NewsFor: on_news() keeps one hook for each of the two.
    enum class NewsFor { collectives, messages };
    // Sets a hook that is called when there are news, under this object's lock: it must not block, nor call
    // back. The hook is called at once if a rank has left or the communicator ended before. Empty: no hook
    // any more.
    void on_news(std::function<void()> hook, NewsFor whom = NewsFor::collectives);
    // Sets a hook that is called once, with the verdict, when there is one, under this object's lock; at once
    // if there is one already.
    void on_end(std::function<void(const Verdict&)> hook);
    // Sets the observer, which is borrowed; nullptr: none any more.
    void set_observer(EndObserver* observer);
    // Stops the agent from announcing this process's death. Does not wait.
    void withdraw_death_news() {
        if (death_news() != nullptr) death_news()->withdraw();
    }

    // Enters a call, as LifelineState does; the functions below are those of LifelineState, too. Returns
    // false if there was a verdict or a rank had left before.
    bool enter(const Call& call);
    std::optional<Verdict> verdict() const { return state(&LifelineState::verdict); }
    std::optional<std::uint64_t> left_after(int rank) const {
        return state(&LifelineState::left_after, rank);
    }
    std::vector<std::optional<Call>> progress() const { return state(&LifelineState::progress); }
    void inquire() { change(&LifelineState::inquire); }
    void leave() { change(&LifelineState::leave); }
    // Concludes a disagreement, as declare() does without one: both end the communicator, tell all ranks, and
    // return the verdict that holds: an earlier one, or the new one.
    Verdict conclude(std::uint64_t sequence, const Verdict& otherwise);
    Verdict declare(const Verdict& verdict);
    // Returns false once no other rank can be heard on the ring any more.
    bool hears_others() const {
        const std::lock_guard lock(mutex_);
        return !ring_.empty();
    }

  private:
    friend class Family;

    // Takes in connections that the acceptor has welcomed. From here on all functions need the family's lock.
    void take_in(std::vector<LinkAcceptor::Accepted>& accepted, const std::vector<LinkHello>& proving);
    void serve_neighbours();
    void serve_lost_lives();
    // Ends the communicator unless the rank had left.
    void judge_loss(int rank, std::string_view how);
    void tell_news() const;
    void tell_observer();
    // Tells the family of deaths.
    void tell_family();
    // Takes in that another communicator of the family knows of a process's death.
    void mark_dead(int process);
    // Withdraws the death news and tells the observer once there is a verdict; then sends.
    void carry_out(const LifelineState::Sendings& sendings);

    const Membership& membership_;
    const std::shared_ptr<Family> family_;
    const std::vector<int> ranks_in_parent_;
    std::vector<int> processes_;  // by rank; see Family
    const bool has_job_ranks_;    // those are the job's ranks
    Lifeline* parent_;            // written only by the thread that runs the operations
    Event news_;
    std::mutex& mutex_;  // the family's; guards everything below
    LifelineState state_;
    RingNeighbours ring_;
    Arrivals arrivals_;
    std::size_t lives_judged_ = 0;  // how many of the family's lost lives this lifeline has judged
    std::array<std::function<void()>, 2> hooks_;
    std::function<void(const Verdict&)> end_hook_;
    EndObserver* observer_ = nullptr;
    bool observer_knows_ = false;
    bool joined_ = false;
    bool family_knows_ = false;
};

}  // namespace detail
}  // namespace ddprun
