#include "collectives/liveness/lifeline.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rendezvous/base/check.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace detail {

Family::Family(TcpListener listener, const std::optional<SecretKey>& key,
               std::shared_ptr<DeathNews> death_news)
    : death_news_(std::move(death_news)),
      acceptor_(
          std::move(listener), [this](const LinkHello& hello, bool proven) { return judge(hello, proven); },
          key) {
    if (death_news_ != nullptr) death_news_->add(*this);
}

Family::~Family() {
    if (death_news_ != nullptr) death_news_->remove(*this);
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.signal();
    if (thread_.joinable()) thread_.join();
}

void Family::add(Lifeline& lifeline) {
    const std::lock_guard lock(mutex_);
    lifelines_.push_back(&lifeline);
    for (const int process : dead_) lifeline.mark_dead(process);
    lifeline.serve_lost_lives();
    if (!thread_.joinable()) thread_ = start_without_signals([this] { run(); });
}

HelloAnswer Family::judge(const LinkHello& hello, bool proven) {
    const std::lock_guard lock(mutex_);
    for (const Lifeline* const one : lifelines_) {
        if (one->arrivals_.is_meant(hello)) return one->arrivals_.judge(hello, proven);
    }
    // The eldest can say best what is wrong.
    return lifelines_.empty() ? HelloAnswer::other_job : lifelines_[0]->arrivals_.judge(hello, proven);
}

void Family::run() {
    ask_for_short_turns();
    std::vector<pollfd> polled;
    std::vector<Lifeline*> owners;
    while (true) {
        polled.assign(1, {wake_.descriptor(), POLLIN, 0});
        acceptor_.add_descriptors(polled);
        owners.assign(polled.size(), nullptr);
        {
            const std::lock_guard lock(mutex_);
            if (stopping_) return;
            for (Lifeline* const one : lifelines_) {
                one->ring_.add_descriptors(polled);
                owners.resize(polled.size(), one);
            }
        }
        const int ready = ::poll(polled.data(), polled.size(), poll_timeout(acceptor_.next_deadline()));
        check(ready >= 0 || errno == EINTR, "the lifeline can poll its own descriptors");
        wake_.clear();
        accept();
        const std::lock_guard lock(mutex_);
        for (std::size_t i = 0; i < polled.size(); ++i) {
            if (polled[i].revents == 0) continue;
            const auto owner = std::find(lifelines_.begin(), lifelines_.end(), owners[i]);
            if (owner != lifelines_.end()) (*owner)->serve_neighbours();
        }
        for (Lifeline* const one : lifelines_) one->serve_lost_lives();
    }
}

void Family::accept() {
    auto accepted = acceptor_.turn(Deadline::clock::now());
    const std::vector<LinkHello> proving = acceptor_.proving();
    const std::lock_guard lock(mutex_);
    for (Lifeline* const one : lifelines_) one->take_in(accepted, proving);
}

Lifeline::Lifeline(const Membership& membership, std::optional<TcpListener> listener, const Origin& origin)
    : membership_(membership),
      family_(origin.parent != nullptr
                  ? origin.parent->family_
                  : std::make_shared<Family>(std::move(*listener), membership.mesh_key, origin.death_news)),
      ranks_in_parent_(origin.ranks),
      has_job_ranks_(origin.parent != nullptr ? origin.parent->has_job_ranks_ : !membership.own_numbers),
      parent_(origin.parent),
      mutex_(family_->mutex_),
      state_(membership.rank, membership.world_size(), membership.own_numbers),
      arrivals_(membership) {
    for (int rank = 0; rank < membership.world_size(); ++rank) {
        const auto place = static_cast<std::size_t>(rank);
        processes_.push_back(parent_ != nullptr ? parent_->processes_[ranks_in_parent_[place]] : rank);
    }
    family_->add(*this);
}

void Lifeline::complete_join() {
    const std::lock_guard lock(mutex_);
    parent_ = nullptr;
    joined_ = true;
    tell_family();
}

std::optional<Verdict> Lifeline::verdict_of_parent() const {
    const auto verdict = parent_ != nullptr ? parent_->verdict() : std::nullopt;
    if (!verdict) return std::nullopt;
    return inherited_verdict(*verdict, ranks_in_parent_);
}

void Lifeline::on_news(std::function<void()> hook, NewsFor whom) {
    const std::lock_guard lock(mutex_);
    std::function<void()>& place = hooks_[static_cast<std::size_t>(whom)];
    place = std::move(hook);
    if (place && !state_.is_quiet()) place();
}

void Lifeline::on_end(std::function<void(const Verdict&)> hook) {
    const std::lock_guard lock(mutex_);
    end_hook_ = std::move(hook);
    tell_observer();
}

void Lifeline::set_observer(EndObserver* observer) {
    const std::lock_guard lock(mutex_);
    observer_ = observer;
    tell_observer();
}

void Lifeline::tell_news() const {
    news_.signal();
    for (const auto& hook : hooks_) {
        if (hook) hook();
    }
    if (!state_.verdict()) return;
    for (const Lifeline* const one : family_->lifelines_) {
        if (one->parent_ == this) one->news_.signal();
    }
}

bool Lifeline::enter(const Call& call) {
    const std::lock_guard lock(mutex_);
    const bool was_quiet = state_.is_quiet();
    state_.enter(call);
    if (state_.owes_answer()) {
        carry_out(state_.answer());
        // That may have decided it.
        if (state_.verdict()) tell_news();
    }
    return was_quiet;
}

Verdict Lifeline::conclude(std::uint64_t sequence, const Verdict& otherwise) {
    const std::lock_guard lock(mutex_);
    carry_out(state_.conclude(sequence, otherwise));
    tell_news();
    return *state_.verdict();
}

Verdict Lifeline::declare(const Verdict& verdict) {
    const std::lock_guard lock(mutex_);
    carry_out(state_.declare(verdict));
    tell_news();
    return *state_.verdict();
}

void Lifeline::take_in(std::vector<LinkAcceptor::Accepted>& accepted, const std::vector<LinkHello>& proving) {
    bool came = false;
    for (auto& one : accepted) {
        if (!arrivals_.is_meant(one.hello)) continue;
        came = true;
        if (auto left = arrivals_.admit(std::move(one)))
            ring_.add(std::move(*left), state_.for_new_neighbour());
    }
    // This comes before it is heard who has left: their proofs may come later than the news of that.
    if (arrivals_.note_proving(proving) || came) tell_news();
}

void Lifeline::serve_neighbours() {
    const std::vector<int> lost = ring_.hear([this](const Notice& notice, int peer) {
        carry_out(state_.heard(notice, peer));
        tell_news();
    });
    for (const int peer : lost) judge_loss(peer, kConnectionsClosed);
    if (!lost.empty()) tell_news();
}

void Lifeline::serve_lost_lives() {
    // What has arrived comes first.
    if (lives_judged_ < family_->lost_lives_.size()) serve_neighbours();
    for (; lives_judged_ < family_->lost_lives_.size(); ++lives_judged_) {
        const std::uint64_t life = family_->lost_lives_[lives_judged_];
        for (int rank = 0; rank < membership_.world_size(); ++rank) {
            if (rank == membership_.rank || membership_.member(rank).life != life) continue;
            judge_loss(rank, kProcessEnded);
            tell_news();
        }
    }
}

void Lifeline::judge_loss(int rank, std::string_view how) {
    const bool unexpected = !state_.left_after(rank);
    const auto cause = observer_ != nullptr && unexpected ? observer_->cause_of_loss(rank) : std::nullopt;
    carry_out(cause ? state_.declare(*cause) : state_.lost(rank, how));
}

void Lifeline::tell_observer() {
    if (state_.verdict() && end_hook_) std::exchange(end_hook_, nullptr)(*state_.verdict());
    if (observer_ == nullptr || observer_knows_ || !state_.verdict()) return;
    observer_knows_ = true;
    observer_->ended(*state_.verdict());
}

void Lifeline::carry_out(const LifelineState::Sendings& sendings) {
    if (state_.verdict()) withdraw_death_news();
    tell_observer();
    for (const auto& sending : sendings) ring_.send(sending.notice, sending.except);
    tell_family();
}

void Lifeline::tell_family() {
    const auto& verdict = state_.verdict();
    if (!verdict || !joined_ || std::exchange(family_knows_, true)) return;
    if (verdict->code != CollectiveErrorCode::peer_died) return;
    for (const int culprit : verdict->culprits) {
        const auto rank = static_cast<std::size_t>(culprit);
        if (rank >= processes_.size()) continue;
        family_->dead_.push_back(processes_[rank]);
        for (Lifeline* other : family_->lifelines_) {
            if (other != this) other->mark_dead(processes_[rank]);
        }
    }
}

void Lifeline::mark_dead(int process) {
    const auto found = std::find(processes_.begin(), processes_.end(), process);
    if (found == processes_.end() || state_.verdict()) return;
    const int rank = static_cast<int>(found - processes_.begin());
    carry_out(
        state_.declare({CollectiveErrorCode::peer_died,
                        {rank},
                        accuse(rank, Charge::died) + ": a communicator that has it, too, ended by that"}));
    tell_news();
}

}  // namespace detail
}  // namespace ddprun
