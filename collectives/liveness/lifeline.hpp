// Lifeline: how a rank hears at once of what happens to the others, whatever it is doing. One per
// communicator.
//
// The ranks form a ring of connections that carry only short notices (lifeline_state.hpp), apart from the
// data, so a notice never waits behind a full buffer. A thread of the family reads them and hands them on;
// therefore a rank that computes, or is stuck in a call, still tells its neighbours who died. The same thread
// accepts the data connections, also while this rank is busy.
//
// The order on every path is: hand the notice on first, then let this rank's own call fail. A rank that gives
// up and exits has told the culprit's name before its own connections close, and is never taken for the
// culprit.
//
// It also hears from the agent of ranks whose process died (death_news.hpp), which is sooner than by their
// connections; what had arrived on these counts first. Once the communicator has ended, the agent is to say
// nothing of this rank's death, since that would overtake the notice of why it gave up.
//
// All public members may be called from any thread; wait() and take_data() from the one that runs the
// operations. Blocks all signals in its thread.
#pragma once

#include <poll.h>

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/liveness/death_news.hpp"
#include "collectives/liveness/lifeline_state.hpp"
#include "collectives/liveness/link_acceptor.hpp"
#include "collectives/wire/event.hpp"
#include "collectives/wire/frame.hpp"
#include "collectives/wire/membership.hpp"
#include "collectives/wire/tcp_link.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace detail {

class DeathNews;
class Lifeline;

// Which communicator a new one comes from (by default from none), and what it has from there.
struct Origin {
    Lifeline* parent = nullptr;                       // borrowed until the new one's join is complete
    std::vector<int> ranks;                           // those in the parent, by rank in the new one
    std::shared_ptr<DeathNews> death_news = nullptr;  // of one that comes from none; null: none
    // Called once others may dial this rank; returns when it may dial them. Where it throws, nobody has.
    // Empty: it may at once.
    std::function<void(const Membership&)> meet = {};
};

// Says what the end of the parent means for a communicator that is just being split off. Pure.
Verdict inherited_verdict(const Verdict& of_parent, std::span<const int> ranks);

// Another way by which ranks learn of an end, beside the ring (ShmLifeline). Both functions are called under
// the lifeline's lock: they must not block, nor call back.
class EndObserver {
  public:
    // The communicator has ended; called once, before this rank's own call can fail.
    virtual void ended(const Verdict& verdict) = 0;
    // The connection to `peer` is over: what that means, if the observer knows better than that it died.
    virtual std::optional<Verdict> cause_of_loss(int peer) const = 0;

  protected:
    ~EndObserver() = default;
};

// The connections by which a rank's ring neighbours tell it, and are told. Owned by a lifeline and under its
// lock; pure of decisions.
class RingNeighbours {
  public:
    RingNeighbours() = default;
    RingNeighbours(const RingNeighbours&) = delete;
    RingNeighbours& operator=(const RingNeighbours&) = delete;
    ~RingNeighbours();

    // A neighbour that comes is told these first.
    void add(TcpLink link, const std::vector<Notice>& first);
    void add_descriptors(std::vector<pollfd>& descriptors) const;
    // Reads what has come, and tells of each notice and who said it. Returns those whose connection is over.
    std::vector<int> hear(const std::function<void(const Notice&, int peer)>& on_notice);
    // To all but that one.
    void send(const Notice& notice, int except);
    bool empty() const { return neighbours_.empty(); }

  private:
    struct Neighbour {
        TcpLink link;
        NoticeReader reader;
    };

    static bool read_from(Neighbour& neighbour,
                          const std::function<void(const Notice&, int peer)>& on_notice);
    static void send(Neighbour& neighbour, const Notice& notice);

    std::vector<Neighbour> neighbours_;
};

// Who has dialled a rank, of those that may, and the data connections that came so and were not taken yet.
// Owned by a lifeline and under its lock; pure of decisions about anything else.
class Arrivals {
  public:
    explicit Arrivals(const Membership& membership);

    // Says what a caller is answered; `proven`: it has the mesh's key.
    HelloAnswer judge(const LinkHello& hello, bool proven) const;
    // Takes in who was welcome. Returns the connection of the left neighbour, if it is that.
    std::optional<TcpLink> admit(LinkAcceptor::Accepted accepted);
    // See the lifeline.
    std::optional<TcpLink> take_data(int peer, int lane);
    bool may_bring_data(int peer, int lane) const;
    bool has_left_neighbour() const { return left_neighbour_came_; }
    // The caller means this communicator.
    bool is_meant(const LinkHello& hello) const {
        return hello.round == membership_.round && hello.communicator == membership_.communicator &&
               hello.nonce == membership_.nonce;
    }
    // Callers that have still to prove that they are these, see LinkAcceptor, some of them here; false if
    // nothing has changed.
    bool note_proving(std::vector<LinkHello> proving);

  private:
    struct Arrived {
        TcpLink link;
        int lane = 0;
    };

    // Messages by tag come on a lane behind those of data.
    int lane_of(const LinkHello& hello) const {
        return hello.channel == Channel::messages ? lanes_ : hello.lane;
    }
    // Returns where data_came_ counts the connection that says this.
    std::size_t data_index(const LinkHello& hello) const;

    const Membership& membership_;
    const int lanes_;
    bool left_neighbour_came_ = false;
    std::vector<bool> data_came_;
    std::vector<Arrived> data_;
    std::vector<LinkHello> proving_;
};

// Family: the communicators of one process that come from each other by split and subgroup.
//
// They have one listener, lock and thread, which accepts connections and reads the rings of all: so another
// communicator costs its ring. The family ends with the last of them, whichever that is.
//
// A process that is dead is dead in all of them, but each hears of it by ways of its own, at its own time. A
// rank that heard in one and therefore leaves the others in order would be named there in place of the dead,
// by those who have not heard yet. So what ends one by a death ends all that the dead process is in, before a
// call of this rank can fail. Any other end concerns one communicator only. Processes are numbered by their
// ranks in the first communicator.
//
// While ranks split, the new communicator's ring is open: a rank that gives up because the old one ended may
// be out of the reach of others, which take it for dead. They ask the old one (Origin::parent).
class Family final : private DeathNews::Listener {
  public:
    Family(TcpListener listener, const std::optional<SecretKey>& key, std::shared_ptr<DeathNews> death_news);
    ~Family();

  private:
    friend class Lifeline;

    // The first one starts the thread.
    void add(Lifeline& lifeline);
    void remove(Lifeline& lifeline) {
        {
            const std::lock_guard lock(mutex_);
            std::erase(lifelines_, &lifeline);
        }
        // What the thread is just polling would not be closed.
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

    const std::shared_ptr<DeathNews> death_news_;  // null: no agent tells of deaths
    Event wake_;
    LinkAcceptor acceptor_;  // the thread's alone
    std::mutex mutex_;       // of all lifelines; guards what follows but the thread itself
    std::vector<Lifeline*> lifelines_;
    std::vector<int> dead_;
    std::vector<std::uint64_t> lost_lives_;
    bool stopping_ = false;
    std::thread thread_;
};

class Lifeline {
  public:
    // Handles what a member function of the state returns. (It stands here since its type is deduced.)
    template <class Member, class... Arguments>
    auto state(Member member, Arguments... arguments) const {
        const std::lock_guard lock(mutex_);
        return std::invoke(member, state_, arguments...);
    }
    // Carries out what it returns.
    template <class Member, class... Arguments>
    void change(Member member, const Arguments&... arguments) {
        const std::lock_guard lock(mutex_);
        carry_out(std::invoke(member, state_, arguments...));
        // That may have decided it.
        if (state_.verdict()) tell_news();
    }

    // `membership` is borrowed. One that comes from another has that one's listener.
    Lifeline(const Membership& membership, std::optional<TcpListener> listener, const Origin& origin = {});
    // Closes all connections; without leave() the others take this rank for dead.
    ~Lifeline() { family_->remove(*this); }

    // The connection that this rank dialled to its right neighbour.
    void add_neighbour(TcpLink link) {
        const std::lock_guard lock(mutex_);
        ring_.add(std::move(link), state_.for_new_neighbour());
        family_->wake_.signal();
    }
    const Membership& membership() const noexcept { return membership_; }
    const std::shared_ptr<DeathNews>& death_news() const noexcept { return family_->death_news_; }
    // True once the left neighbour has dialled this rank.
    bool has_left_neighbour() const {
        const std::lock_guard lock(mutex_);
        return arrivals_.has_left_neighbour();
    }

    // The communicator is made: from now on its family hears of deaths in it. (Before, who leaves looks
    // dead.)
    void complete_join();
    // Until then this is the communicator it is split from, else null, and why that has ended, if it has.
    Lifeline* parent() const noexcept { return parent_; }
    std::optional<Verdict> verdict_of_parent() const;

    // The data connection that `peer` has dialled to this rank as its `lane`, given away once; none while it
    // has not.
    std::optional<TcpLink> take_data(int peer, int lane) {
        const std::lock_guard lock(mutex_);
        return arrivals_.take_data(peer, lane);
    }
    // Somebody says that he dials as that, and has not proven it yet.
    bool may_bring_data(int peer, int lane) const {
        const std::lock_guard lock(mutex_);
        return arrivals_.may_bring_data(peer, lane);
    }

    // Becomes readable when anything below may have changed; take_news() makes it unreadable again.
    int news_descriptor() const noexcept { return news_.descriptor(); }
    void take_news() { news_.clear(); }
    // Called besides, under this object's lock: must not block, nor call back; at once if somebody has left
    // or the communicator ended before. Empty: nothing more is called.
    enum class NewsFor { collectives, messages };
    void on_news(std::function<void()> hook, NewsFor whom = NewsFor::collectives);
    // Called besides once there is a verdict, and as that is.
    void on_end(std::function<void(const Verdict&)> hook);
    // Borrowed; nullptr: there is none any more.
    void set_observer(EndObserver* observer);
    // The agent shall not tell of this process's death any more. Does not wait for anybody.
    void withdraw_death_news() {
        if (death_news() != nullptr) death_news()->withdraw();
    }

    // See LifelineState.
    // False if there was a verdict or somebody had left before.
    bool enter(const Call& call);
    std::optional<Verdict> verdict() const { return state(&LifelineState::verdict); }
    std::optional<std::uint64_t> left_after(int rank) const {
        return state(&LifelineState::left_after, rank);
    }
    std::vector<std::optional<Call>> progress() const { return state(&LifelineState::progress); }
    void inquire() { change(&LifelineState::inquire); }
    void leave() { change(&LifelineState::leave); }
    // Both end the communicator, telling everybody, and return the verdict that holds: an earlier one, or
    // this.
    Verdict conclude(std::uint64_t sequence, const Verdict& otherwise);
    Verdict declare(const Verdict& verdict);
    // False once no other rank can be heard on the ring any more.
    bool hears_others() const {
        const std::lock_guard lock(mutex_);
        return !ring_.empty();
    }

  private:
    friend class Family;

    // The family's lock is held in all of these.
    void take_in(std::vector<LinkAcceptor::Accepted>& accepted, const std::vector<LinkHello>& proving);
    void serve_neighbours();
    void serve_lost_lives();
    // Ends the communicator unless the rank had left.
    void judge_loss(int rank, std::string_view how);
    void tell_news() const;
    void tell_observer();
    // Lets the family know of deaths.
    void tell_family();
    // Another of the family knows that this process is dead.
    void mark_dead(int process);
    // Lets the observer know of a verdict that is new, and the agent, then sends.
    void carry_out(const LifelineState::Sendings& sendings);

    const Membership& membership_;
    const std::shared_ptr<Family> family_;
    const std::vector<int> ranks_in_parent_;
    std::vector<int> processes_;  // by rank; see Family
    Lifeline* parent_;            // written by the operations' thread alone
    Event news_;
    std::mutex& mutex_;  // the family's; guards everything below
    LifelineState state_;
    RingNeighbours ring_;
    Arrivals arrivals_;
    std::size_t lives_judged_ = 0;  // of the family's lost ones
    std::array<std::function<void()>, 2> hooks_;
    std::function<void(const Verdict&)> end_hook_;
    EndObserver* observer_ = nullptr;
    bool observer_knows_ = false;
    bool joined_ = false;
    bool family_knows_ = false;
};

}  // namespace detail
}  // namespace ddprun
