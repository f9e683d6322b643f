#include "rendezvous/control/heartbeat.hpp"

#include <fmt/core.h>

#include "rendezvous/control/control_text.hpp"

namespace ddprun {
inline namespace job {

void HeartbeatWatch::add(ConnectionId agent, TimePoint now) {
    if (terms_.limit.count() == 0) return;
    if (peers_.empty()) {
        next_question_ = now + terms_.period();
        first_loss_ = now + terms_.patience();
    }
    peers_[agent] = {0, 0, now};
}

std::optional<Heartbeat> HeartbeatWatch::seen(ConnectionId agent, bool beats, TimePoint now) {
    const auto peer = peers_.find(agent);
    if (peer == peers_.end()) return std::nullopt;
    peer->second.seen = now;
    if (!beats || !std::exchange(peer->second.excused_until, std::nullopt) || is_still_) return std::nullopt;
    return question_for(peer->second);
}

Heartbeat HeartbeatWatch::question_for(Peer& peer) const {
    if (!is_in_doubt()) peer.confirmed = peer.answered;
    return {number_, peer.confirmed};
}

void HeartbeatWatch::excuse(ConnectionId agent, TimePoint until) {
    if (const auto peer = peers_.find(agent); peer != peers_.end()) peer->second.excused_until = until;
}

std::optional<Heartbeat> HeartbeatWatch::answered(ConnectionId agent, const Heartbeat& answer) {
    const auto peer = peers_.find(agent);
    if (peer == peers_.end() || answer.number <= peer->second.answered || answer.number > number_)
        return std::nullopt;
    peer->second.answered = answer.number;
    if (answer.number == number_) {
        peer->second.bound_since = last_question_;
        ++answers_;
        return std::nullopt;
    }
    if (is_in_doubt() || is_still_) return std::nullopt;
    return question_for(peer->second);
}

void HeartbeatWatch::look(TimePoint now, TimePoint::duration late) {
    if (peers_.empty() || late.count() <= 0) return;
    for (auto& [agent, peer] : peers_) {
        peer.seen = std::min(peer.seen + late, now);
        if (peer.excused_until && *peer.excused_until < TimePoint::max() - late) *peer.excused_until += late;
    }
    if (late <= terms_.margin()) return;
    doubted_end_ = lease_end();
    asks_excused_ = true;
    next_question_ = now;
    first_loss_ = std::max(first_loss_, now);
}

HeartbeatWatch::Turn HeartbeatWatch::tick(TimePoint now) {
    Turn turn;
    if (peers_.empty()) return turn;
    if (now >= next_question_) turn.questions = ask(now);
    first_loss_ = TimePoint::max();
    for (auto entry = peers_.begin(); entry != peers_.end();) {
        const auto& [agent, peer] = *entry;
        if (peer.excused_until && now < *peer.excused_until) {
            ++entry;
            continue;
        }
        const TimePoint loss = peer.excused_until.value_or(peer.seen) + terms_.patience();
        if (now >= loss) {
            turn.lost.push_back(agent);
            entry = peers_.erase(entry);
            continue;
        }
        first_loss_ = std::min(first_loss_, loss);
        ++entry;
    }
    std::erase_if(turn.questions, [this](const auto& question) { return !peers_.contains(question.first); });
    return turn;
}

std::vector<std::pair<HeartbeatWatch::ConnectionId, Heartbeat>> HeartbeatWatch::settle(TimePoint now) {
    doubted_end_.reset();
    return ask(now);
}

std::vector<std::pair<HeartbeatWatch::ConnectionId, Heartbeat>> HeartbeatWatch::ask(TimePoint now) {
    const bool also_excused = std::exchange(asks_excused_, false);
    ++number_;
    answers_ = 0;
    last_question_ = now;
    next_question_ = now + terms_.period();
    std::vector<std::pair<ConnectionId, Heartbeat>> questions;
    for (auto& [agent, peer] : peers_) {
        if (!also_excused && peer.excused_until && now < *peer.excused_until) continue;
        questions.emplace_back(agent, question_for(peer));
    }
    return questions;
}

bool HeartbeatWatch::is_bound(ConnectionId agent, TimePoint now) const {
    const auto peer = peers_.find(agent);
    return peer != peers_.end() && peer->second.bound_since &&
           now < *peer->second.bound_since + terms_.patience() - terms_.margin();
}

bool HeartbeatWatch::has_answered(ConnectionId agent) const {
    const auto peer = peers_.find(agent);
    return peer == peers_.end() || peer->second.excused_until || peer->second.answered == number_;
}

bool HeartbeatWatch::was_seen(ConnectionId agent, TimePoint since) const {
    const auto peer = peers_.find(agent);
    return peer == peers_.end() || peer->second.excused_until || peer->second.seen >= since;
}

std::optional<HeartbeatWatch::TimePoint> HeartbeatWatch::next_deadline() const {
    if (peers_.empty()) return std::nullopt;
    return std::min(next_question_, first_loss_);
}

void HeartbeatLease::look(TimePoint now) {
    if (!suspended_ && now - next_look() > terms_.margin()) {
        stood_ = now - looked_;
        asks_since_ = now;
    }
    looked_ = now;
}

void HeartbeatLease::hear(TimePoint given) {
    heard_ = given;
    if (asks_since_ && heard_ >= *asks_since_) asks_since_.reset();
}

void HeartbeatLease::all_arrived() {
    if (unheard_.empty() || asks_since_) return;
    heard_ = unheard_.back().given;
    unheard_.clear();
}

void HeartbeatLease::resume(TimePoint now) {
    suspended_ = false;
    heard_ = looked_ = now;
    asks_since_.reset();
    unheard_.clear();
}

void HeartbeatLease::started(TimePoint now) {
    suspended_ = false;
    looked_ = now;
    if (now >= end()) resume(now);
}

Heartbeat HeartbeatLease::answer(const Heartbeat& question, TimePoint now) {
    while (!unheard_.empty() && unheard_.front().number <= question.heard) {
        hear(unheard_.front().given);
        unheard_.pop_front();
    }
    if (suspended_) {
        // A question that was under way for longer than a period is none.
        resume(now - terms_.period());
    }
    // Only the first of two answers to one question is sure to be the one that was heard.
    // Number 0 is asked before all others, and that it was heard cannot be told from that nothing was.
    const bool is_new = question.number > 0 && (unheard_.empty() || unheard_.back().number < question.number);
    if (is_new && unheard_.size() == kMaxUnheard) unheard_.pop_back();
    if (is_new) unheard_.push_back({question.number, now});
    return {.number = question.number};
}

namespace {

// Says how long an agent has stood still.
std::string standstill_text(const HeartbeatLease& lease) {
    const auto stood = std::chrono::duration_cast<std::chrono::seconds>(*lease.stood());
    return fmt::format("it stood still for about {} s (stopped, or its machine was frozen)", stood.count());
}

}  // namespace

CoordinatorLoss stranger_loss(const Endpoint& called) {
    return {CoordinatorLoss::Kind::stranger,
            fmt::format("what listens at {} ended the connection without an answer", to_string(called))};
}

CoordinatorLoss unanswered_loss(const Endpoint& called) {
    return {CoordinatorLoss::Kind::broken,
            fmt::format("what listens at {} does not answer", to_string(called))};
}

CoordinatorLoss lease_loss(const HeartbeatLease& lease) {
    const HeartbeatTerms& terms = lease.terms();
    // An agent that stood still for less than the limit was not given up for that: it is the other side that
    // is silent.
    if (!lease.stood() || *lease.stood() < terms.limit)
        return {CoordinatorLoss::Kind::silent, silence_text(terms.limit)};
    return {
        CoordinatorLoss::Kind::given_up,
        fmt::format("{}, and nobody has said since that the job goes on with it", standstill_text(lease))};
}

CoordinatorLoss given_up_loss(const std::optional<HeartbeatLease>& lease, const std::string& reason) {
    if (!lease || !lease->stood()) return {CoordinatorLoss::Kind::given_up, reason};
    return {CoordinatorLoss::Kind::given_up,
            fmt::format("{}, and the others have given it up: {}", standstill_text(*lease), reason)};
}

}  // namespace job
}  // namespace ddprun
