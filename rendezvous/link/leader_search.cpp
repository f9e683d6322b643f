#include "rendezvous/link/leader_search.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "rendezvous/net/socket.hpp"

namespace ddprun {

namespace asio = boost::asio;

void LeaderSearch::begin(Following own, int leader, const CoordinatorLoss& loss) {
    called_ = leader;
    follows_ = true;
    succession_.emplace(std::move(own), Succession::TimePoint::clock::now());
    if (loss.kind == CoordinatorLoss::Kind::left) succession_->note_gone(leader);
    last_cause_ = "no other node leads the job";
}

void LeaderSearch::lose(const CoordinatorLoss& loss, const Endpoint& place) {
    const int leader = follows_ && called_ ? *called_ : kNobody;
    if (loss.kind == CoordinatorLoss::Kind::left) last_cause_ = loss.cause;
    if (loss.is_dead && leader != kNobody) succession_->note_gone(leader);
    const bool is_unclear = loss.kind == CoordinatorLoss::Kind::broken && !loss.is_dead && leader != kNobody;
    is_unclear ? look_at(leader, place) : go_on();
}

void LeaderSearch::pass_over(const CoordinatorLoss& loss) {
    if (loss.kind == CoordinatorLoss::Kind::left) last_cause_ = loss.cause;
    go_on();
}

// A process that dies with something unread has its connection reset. That could come from elsewhere, too; but if
// its machine answers that nobody listens where the coordinator did, it is dead.
void LeaderSearch::look_at(int leader, const Endpoint& place) {
    asio::co_spawn(
        executor_,
        [this, leader, place, life = std::weak_ptr(life_)]() -> asio::awaitable<void> {
            const bool is_dead = co_await is_refused(place, kCallTimeout);
            if (life.expired() || !succession_) co_return;
            if (is_dead) succession_->note_gone(leader);
            go_on();
        },
        asio::detached);
}

// Those who followed a coordinator of this agent's are told first that it has come to nothing; else they would take it
// for dead.
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
    pause_.expires_after(pause);
    pause_.async_wait([this](boost::system::error_code cancelled) {
        if (!cancelled) step();
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
    if (next.kind == Succession::Kind::pause) return step_after(Succession::kPause);
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

}  // namespace ddprun
