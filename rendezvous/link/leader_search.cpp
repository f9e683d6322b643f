#include "rendezvous/link/leader_search.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <vector>

#include "rendezvous/base/error.hpp"
#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/net/connect.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;

void LeaderSearch::begin(Following own, int leader, const CoordinatorLoss& loss) {
    called_ = leader;
    follows_ = true;
    unclear_.reset();
    life_ = std::make_shared<int>(0);  // Nothing of a search before comes to this one.
    succession_.emplace(std::move(own), Succession::TimePoint::clock::now());
    if (loss.kind == CoordinatorLoss::Kind::left) succession_->note_gone(leader);
    last_cause_ = "no other node leads the job";
}

void LeaderSearch::lose(const CoordinatorLoss& loss, const Endpoint& place) {
    const int leader = follows_ && called_ ? *called_ : kNobody;
    if (loss.kind == CoordinatorLoss::Kind::left) last_cause_ = loss.cause;
    if (loss.is_dead && leader != kNobody) succession_->note_gone(leader);
    const bool is_unclear = loss.kind == CoordinatorLoss::Kind::broken && !loss.is_dead && leader != kNobody;
    if (!is_unclear) return go_on();
    unclear_.emplace(leader, place);
    look();
}

void LeaderSearch::pass_over(const CoordinatorLoss& loss) {
    if (loss.kind == CoordinatorLoss::Kind::left) last_cause_ = loss.cause;
    go_on();
}

// A process that dies with something unread has its connection reset. That could come from elsewhere, too;
// but if its machine answers that nobody listens where the coordinator did, it is dead.
void LeaderSearch::look() {
    asio::co_spawn(
        executor_,
        [this, place = unclear_->second, life = std::weak_ptr(life_)]() -> asio::awaitable<void> {
            const bool is_dead = co_await is_refused(place, kCallTimeout);
            if (life.expired() || !succession_) co_return;
            if (is_dead) succession_->note_gone(std::exchange(unclear_, {})->first);
            go_on();
        },
        asio::detached);
}

// Those who followed a coordinator of this agent's are told first that it has come to nothing; else they
// would take it for dead.
void LeaderSearch::go_on() {
    follows_ = false;
    called_.reset();
    asio::post(executor_, [this, life = std::weak_ptr(life_)] {
        if (life.expired() || !succession_) return;
        if (steps_.hang_up()) return step_after(CoordinatorClient::kCloseTimeout);
        step();
    });
}

void LeaderSearch::step_after(std::chrono::milliseconds pause) {
    wait(pause, [this] { step(); });
}

template <typename Then>
void LeaderSearch::wait(std::chrono::milliseconds pause, Then then) {
    pause_.expires_after(pause);
    pause_.async_wait([then](boost::system::error_code cancelled) {
        if (!cancelled) then();
    });
}

void LeaderSearch::step() {
    if (!succession_) return;
    pause_.cancel();
    steps_.clear();
    if (steps_.claim) {
        // Whoever hosts as etcd says may be gone, or come.
        if (std::exchange(was_called_, false)) return step_after(Succession::kPause);
        return steps_.claim(succession_->own(), succession_->deadline());
    }
    const Succession::Step next = succession_->next(Succession::TimePoint::clock::now());
    if (next.kind == Succession::Kind::end) return fail(last_cause_);
    // A process may take its time to die, or its machine to answer.
    if (next.kind == Succession::Kind::pause)
        return wait(Succession::kPause, [this] { unclear_ ? look() : step(); });
    take(next);
}

void LeaderSearch::take(const Succession::Step& next) {
    called_ = next.member.group_rank;
    was_called_ = true;
    steps_.go_to(next);
}

void LeaderSearch::lead() {
    const std::vector<Member>& members = succession_->own().last.members;
    const auto self = std::find_if(members.begin(), members.end(), [this](const Member& one) {
        return one.group_rank == succession_->own().group_rank;
    });
    if (self == members.end() || self->port == 0) return fail("this node can host no coordinator");
    take({Succession::Kind::host, *self});
}

void LeaderSearch::go_to(const Endpoint& host) {
    const std::vector<Member>& members = succession_->own().last.members;
    const auto one = std::find_if(members.begin(), members.end(), [&host](const Member& member) {
        return member.address == host.host && member.port == host.port;
    });
    Member called{.group_rank = kNobody, .host = host.host, .address = host.host, .port = host.port};
    if (one != members.end()) called = *one;
    take({Succession::Kind::call, called});
}

void LeaderSearch::fail(const std::string& why) {
    succession_.reset();
    steps_.give_up({CoordinatorLoss::Kind::leaderless, why});
}

}  // namespace job
}  // namespace ddprun
