#include "rendezvous/coordinator/coordinator.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/coordinator/control_text.hpp"
#include "rendezvous/coordinator/culprit.hpp"
#include "rendezvous/coordinator/job_end.hpp"
#include "rendezvous/coordinator/rank_mapping.hpp"
#include "rendezvous/system/check.hpp"

namespace ddprun {

Coordinator::Coordinator(CoordinatorOptions options, TimePoint now)
    : options_(std::move(options)),
      policy_(options_.restarts),
      random_(options_.jitter_seed),
      join_deadline_(now + options_.join_timeout) {
    check(options_.nnodes >= 1, "a job needs at least one node");
}

Coordinator::Outbox Coordinator::receive(ConnectionId from, const ControlMessage& message, TimePoint now) {
    if (const auto* hello = std::get_if<Hello>(&message)) return receive_hello(from, *hello, now);
    Node* node = find(from);
    // Without a Hello, or from a node that was refused, nothing else has a meaning.
    if (node == nullptr) return {{from, Refused{"say Hello first", kExitNotAdmitted}, true}};
    if (const auto* failed = std::get_if<WorkerFailed>(&message))
        return receive_failure(*node, failed->round, failed->failure, now);
    if (const auto* dying = std::get_if<WorkerDying>(&message)) return receive_dying(*node, *dying);
    if (const auto* signalled = std::get_if<AgentSignalled>(&message))
        return receive_signal(*node, *signalled, now);
    if (const auto* notice = std::get_if<NoticeSignal>(&message)) {
        if (state_ != State::running || notice->round != round_) return {};
        requeue_ = requeue_ || notice->requeue;
        return to_all(*notice);
    }
    return receive_end(*node, message, now);
}

Coordinator::Outbox Coordinator::start_round(TimePoint now) {
    state_ = State::running;
    awaited_ = nodes_.size();
    round_start_ = now;
    progressed_ = requeue_ = false;
    order_ = {};
    deaths_told_ = 0;
    std::vector<NodeShare> shares;
    for (auto& [rank, node] : nodes_) {
        shares.push_back({node.hello.local_world_size, node.hello.role});
        node.ended = node.all_zero = node.is_gone = false;
        node.ends.clear();
        node.failure.reset();
    }
    std::vector<NodeRanks> ranks = map_ranks(shares);

    Outbox out;
    for (auto& [node_rank, node] : nodes_) {
        const NodeRanks& own = ranks.at(static_cast<std::size_t>(node_rank));
        node.base_rank = own.base_rank;
        RoundReady ready{.round = round_, .job_id = options_.job_id, .group_rank = node_rank};
        ready.group_world_size = options_.nnodes;
        ready.base_rank = own.base_rank;
        ready.world_size = own.world_size;
        ready.role_base_rank = own.role_base_rank;
        ready.role_world_size = own.role_world_size;
        ready.restart_count = policy_.restarts();
        ready.max_restarts = policy_.max_restarts();
        if (!restarts_.empty()) ready.restart_reason = restarts_.back().reason;
        if (node_rank == 0) ready.reached_at = reached_at();
        out.push_back({node.connection, ready});
    }
    return out;
}

// As the node with the lowest number says, since one that shares node 0's machine may have taken another way.
std::string Coordinator::reached_at() const {
    for (const auto& [rank, node] : nodes_) {
        if (rank != 0) return node.hello.reached_at;
    }
    return {};
}

Coordinator::Outbox Coordinator::receive_failure(Node& node, int round, Failure failure, TimePoint now) {
    // Late echoes of a failure are no news: the first one received is the story.
    if (round == round_ && state_ == State::stopping && node.has_rank(failure.rank))
        order_.contend(failure.rank);
    if (round != round_ || state_ != State::running) return {};
    failure.node_rank = node.hello.node_rank;
    failure.host = node.hello.host;
    return first_failure(std::move(failure), now);
}

Coordinator::Outbox Coordinator::receive_dying(Node& node, const WorkerDying& dying) {
    if (dying.round != round_ || (state_ != State::running && state_ != State::stopping)) return {};
    if (dying.itself && node.has_rank(dying.rank)) {
        state_ == State::running ? order_.suspect(dying.rank) : order_.contend(dying.rank);
    }
    if (state_ != State::running) return {};
    if (dying.life == 0 || deaths_told_ + nodes_.size() > kMaxDeathsTold) return {};
    Outbox out;
    for (const auto& [rank, other] : nodes_) {
        if (&other != &node && other.connected && !other.ended)
            out.push_back({other.connection, PeerDying{round_, dying.life}});
    }
    deaths_told_ += out.size();
    return out;
}

Coordinator::Outbox Coordinator::receive_signal(Node& node, const AgentSignalled& signalled, TimePoint now) {
    restart_cancelled_ = true;
    Failure failure{.kind = Failure::Kind::signalled};
    failure.signal = signalled.signal;
    if (state_ != State::pausing) return receive_failure(node, signalled.round, failure, now);
    failure.node_rank = node.hello.node_rank;
    failure.host = node.hello.host;
    cause_ = failure;
    return finish({});
}

Coordinator::Outbox Coordinator::receive_end(Node& node, const ControlMessage& message, TimePoint now) {
    if (const auto* ends = std::get_if<RankEnds>(&message)) {
        const auto room = static_cast<std::size_t>(node.hello.local_world_size) - node.ends.size();
        if (ends->round != round_ || state_ == State::over) return {};
        for (std::size_t i = 0; i < std::min(room, ends->ends.size()); ++i) {
            node.ends.push_back(ends->ends[i]);
            node.ends.back().node_rank = node.hello.node_rank;
            node.ends.back().host = node.hello.host;
        }
        return {};
    }
    if (const auto* succeeded = std::get_if<WorkersSucceeded>(&message)) {
        if (state_ != State::running || succeeded->round != round_) return {};
        node.all_zero = node.is_gone = true;
        return node_ended(node, now);
    }
    if (const auto* gone = std::get_if<WorkersGone>(&message)) {
        if (state_ != State::stopping || gone->round != round_) return {};
        node.all_zero = gone->all_zero;
        node.is_gone = true;
        progressed_ = progressed_ || gone->progressed;
        if (gone->failure) add_evidence(node, *gone->failure);
        return node_ended(node, now);
    }
    if (std::holds_alternative<Goodbye>(message) && state_ == State::over) {
        nodes_by_connection_.erase(node.connection);
        node.connected = false;
    }
    return {};
}

// The first failure was told at once; what its worker wrote has been gathered since, and how those ended that
// may have been before it. What a node says of itself now counts more than what it told then.
void Coordinator::add_evidence(Node& node, Failure failure) {
    if (!cause_ || cause_->kind != Failure::Kind::worker_failed) return;
    failure.node_rank = node.hello.node_rank;
    failure.host = node.hello.host;
    node.failure = failure;
    const bool same = cause_->node_rank == failure.node_rank;
    if (same || order_.is_before(failure, *cause_)) cause_ = std::move(failure);
}

// All has been heard, so the words of those that failed may be believed.
void Coordinator::hear_witnesses() {
    if (cause_->kind != Failure::Kind::worker_failed) return;
    std::vector<const Failure*> known;
    for (const auto& [rank, node] : nodes_) {
        if (node.failure) known.push_back(&*node.failure);
    }
    cause_ = culprit_of(*cause_, known, [this](int rank) { return end_of(rank); });
}

std::optional<RankEnd> Coordinator::end_of(int rank) const {
    for (const auto& [node_rank, node] : nodes_) {
        if (!node.has_rank(rank)) continue;
        const auto end = std::find_if(node.ends.begin(), node.ends.end(),
                                      [rank](const RankEnd& one) { return one.rank == rank; });
        if (end != node.ends.end()) return *end;
        RankEnd lost{.rank = rank, .local_rank = rank - node.base_rank, .node_rank = node_rank};
        lost.host = node.hello.host;
        lost.manner = RankEnd::Manner::lost;
        return lost;
    }
    return std::nullopt;
}

Coordinator::Outbox Coordinator::first_failure(Failure failure, TimePoint now) {
    state_ = State::stopping;
    uptime_ = std::chrono::duration_cast<std::chrono::milliseconds>(now - round_start_);
    cause_ = std::move(failure);
    awaited_ = 0;
    for (auto& [rank, node] : nodes_) {
        node.ended = !node.connected;
        if (node.connected) ++awaited_;
    }
    Outbox out = to_all(Stop{round_, *cause_});
    Outbox rest = awaited_ == 0 ? all_ended(now) : Outbox{};
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
}

Coordinator::Outbox Coordinator::closed(ConnectionId connection, TimePoint now) {
    Node* node = find(connection);
    if (node == nullptr) return {};
    const int node_rank = node->hello.node_rank;
    nodes_by_connection_.erase(connection);
    node->connected = false;
    Failure lost{.kind = Failure::Kind::node_lost, .node_rank = node_rank, .host = node->hello.host};
    lost.exit_code = kExitUnavailable;
    lost.message = "the connection to its agent (pid " + std::to_string(node->hello.pid) + ") was lost";

    switch (state_) {
        case State::gathering:
            nodes_.erase(node_rank);
            status_due_ =
                last_status_ ? std::max(now, *last_status_ + kStatusPeriod) : now + kFirstStatusDelay;
            return {};
        case State::running:
            if (node->ended) return {};  // Its workers are done; the job does not need it any more.
            return first_failure(std::move(lost), now);
        case State::stopping: return node_ended(*node, now);
        case State::pausing: cause_ = std::move(lost); return finish({});
        case State::over: return {};
    }
    return {};
}

Coordinator::Outbox Coordinator::node_ended(Node& node, TimePoint now) {
    if (std::exchange(node.ended, true)) return {};
    --awaited_;
    return awaited_ == 0 ? all_ended(now) : Outbox{};
}

Coordinator::Outbox Coordinator::all_ended(TimePoint now) {
    if (state_ == State::running) return finish({});
    hear_witnesses();
    const bool complete =
        std::all_of(nodes_.begin(), nodes_.end(), [](const auto& entry) { return entry.second.connected; });
    if (restart_cancelled_) return finish({});
    if (!complete && cause_->kind != Failure::Kind::node_lost) {
        return finish(policy_.max_restarts() > 0 ? "no restart: a node is missing" : "");
    }
    const double jitter = std::uniform_real_distribution<double>(0, 1)(random_);
    auto decision = policy_.decide({*cause_, uptime_, progressed_}, jitter);
    return decision.restart ? pause_before_next_round(decision.delay, now) : finish(decision.message);
}

Coordinator::Outbox Coordinator::pause_before_next_round(std::chrono::milliseconds delay, TimePoint now) {
    const std::string reason = to_text(*cause_);
    restarts_.push_back({round_, reason.substr(0, kMaxReasonText), cause_->unix_time_ms});
    if (restarts_.size() > kMaxRestartsListed) restarts_.erase(restarts_.begin());
    Outbox out = to_all(
        Restarting{*cause_, policy_.restarts(), policy_.max_restarts(), static_cast<int>(delay.count())});
    cause_.reset();
    ++round_;
    state_ = State::pausing;
    pause_end_ = now + delay;
    if (delay.count() > 0) return out;
    Outbox next = tick(now);
    out.insert(out.end(), next.begin(), next.end());
    return out;
}

Coordinator::Outbox Coordinator::finish(const std::string& message) {
    Outbox out = rank_ends();
    Outbox last = to_all(summary(message));
    state_ = State::over;
    out.insert(out.end(), last.begin(), last.end());
    return out;
}

Finish Coordinator::summary(const std::string& message) const {
    Finish finish{.exit_code = exit_code(), .cause = cause_};
    finish.message = message;
    finish.restarts = restarts_;
    std::vector<RankEnd> ends;
    for (const auto& [rank, node] : nodes_) {
        const bool lost = !node.connected && !node.ended;
        if (!node.connected && !node.is_gone &&
            ++finish.unknown_node_count <= static_cast<int>(kMaxUnknownListed))
            finish.unknown_nodes.push_back(node_text(rank, node.hello.host));
        if (lost || (!node.connected && node.ends.empty())) finish.lost += node.hello.local_world_size;
        ends.insert(ends.end(), node.ends.begin(), node.ends.end());
    }
    add_ends(finish, ends, cause_);
    return finish;
}

Coordinator::Outbox Coordinator::rank_ends() const {
    std::vector<RankEnd> ends;
    for (const auto& [rank, node] : nodes_) ends.insert(ends.end(), node.ends.begin(), node.ends.end());
    const std::vector<RankEnds> messages = as_messages(round_, ends);
    Outbox out;
    for (const auto& [rank, node] : nodes_) {
        if (!node.connected || !node.hello.wants_rank_ends) continue;
        for (const RankEnds& message : messages) out.push_back({node.connection, message});
    }
    return out;
}

Coordinator::Outbox Coordinator::to_all(const ControlMessage& message) const {
    Outbox out;
    for (const auto& [rank, node] : nodes_) {
        if (node.connected) out.push_back({node.connection, message});
    }
    return out;
}

int Coordinator::exit_code() const {
    if (!cause_) return requeue_ ? kExitPreempted : 0;
    if (cause_->kind != Failure::Kind::signalled) return cause_->exit_code;
    const bool all_zero =
        std::all_of(nodes_.begin(), nodes_.end(), [](const auto& entry) { return entry.second.all_zero; });
    return all_zero ? kExitPreempted : kExitSignalBase + cause_->signal;
}

Coordinator::Outbox Coordinator::tick(TimePoint now) {
    if (state_ == State::pausing && now >= *pause_end_) return start_round(now);
    if (state_ != State::gathering) return {};
    if (now >= join_deadline_) return time_out();
    if (status_due_ && now >= *status_due_) return waiting_to_all(now);
    return {};
}

std::optional<Coordinator::TimePoint> Coordinator::next_deadline() const {
    if (state_ == State::pausing) return pause_end_;
    if (state_ != State::gathering) return std::nullopt;
    return status_due_ ? std::min(*status_due_, join_deadline_) : join_deadline_;
}

Coordinator::Node* Coordinator::find(ConnectionId connection) {
    auto entry = nodes_by_connection_.find(connection);
    return entry == nodes_by_connection_.end() ? nullptr : &nodes_.at(entry->second);
}

}  // namespace ddprun
