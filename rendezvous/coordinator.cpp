#include "rendezvous/coordinator.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/check.hpp"
#include "rendezvous/rank_mapping.hpp"

namespace ddprun {
namespace {

Refused not_admitted(std::string reason) {
    return {std::move(reason), kExitNotAdmitted};
}

}  // namespace

std::string to_text(const Waiting& waiting) {
    std::string text = "joined " + std::to_string(waiting.joined) + "/" + std::to_string(waiting.expected);
    for (std::size_t i = 0; i < waiting.missing.size(); ++i) {
        text += (i == 0 ? ", missing node " : ", node ") + std::to_string(waiting.missing[i]);
    }
    int unlisted = waiting.expected - waiting.joined - static_cast<int>(waiting.missing.size());
    if (unlisted > 0) text += " and " + std::to_string(unlisted) + " more";
    return text;
}

Coordinator::Coordinator(CoordinatorOptions options, TimePoint now)
    : options_(std::move(options)), join_deadline_(now + options_.join_timeout) {
    check(options_.nnodes >= 1, "a job needs at least one node");
}

Coordinator::Outbox Coordinator::receive(ConnectionId from, const ControlMessage& message, TimePoint now) {
    if (const auto* hello = std::get_if<Hello>(&message)) return receive_hello(from, *hello, now);
    Node* node = find(from);
    // Without a Hello, or from a node that was refused, nothing else has a meaning.
    if (node == nullptr) return {{from, Refused{"say Hello first", kExitNotAdmitted}, true}};
    if (const auto* failed = std::get_if<WorkerFailed>(&message)) {
        return receive_failure(*node, failed->round, failed->failure);
    }
    if (const auto* signalled = std::get_if<AgentSignalled>(&message)) {
        Failure failure{.kind = Failure::Kind::signalled};
        failure.signal = signalled->signal;
        return receive_failure(*node, signalled->round, failure);
    }
    return receive_end(*node, message);
}

Coordinator::Outbox Coordinator::receive_hello(ConnectionId from, const Hello& hello, TimePoint now) {
    if (find(from) != nullptr) return {{from, not_admitted("this agent has said Hello before"), true}};
    if (auto refused = reason_to_refuse(hello)) return {{from, *refused, true}};

    nodes_[hello.node_rank] = Node{.hello = hello, .connection = from};
    nodes_by_connection_[from] = hello.node_rank;
    if (static_cast<int>(nodes_.size()) == options_.nnodes) return start_round();

    // The newcomer hears of the others after a while; those who wait already hear of the newcomer.
    TimePoint due = last_status_ ? std::max(now, *last_status_ + kStatusPeriod) : now + kFirstStatusDelay;
    status_due_ = status_due_ ? std::min(*status_due_, due) : due;
    return {};
}

std::optional<Refused> Coordinator::reason_to_refuse(const Hello& hello) const {
    auto text = [](int number) { return std::to_string(number); };
    if (hello.version != options_.version) {
        return not_admitted("this agent is ddprun " + hello.version + ", node 0 is ddprun " +
                            options_.version + "; install one version on all nodes");
    }
    if (hello.run_id != options_.run_id) {
        return not_admitted("this agent's --rdzv-id is \"" + hello.run_id + "\", but the job here is \"" +
                            options_.run_id + "\"");
    }
    if (hello.nnodes != options_.nnodes) {
        return not_admitted("this agent's --nnodes is " + text(hello.nnodes) + ", but node 0 has --nnodes " +
                            text(options_.nnodes));
    }
    if (hello.node_rank < 0 || hello.node_rank >= options_.nnodes) {
        return not_admitted("--node-rank " + text(hello.node_rank) + " is out of range: --nnodes is " +
                            text(options_.nnodes));
    }
    if (hello.local_world_size < 1 || hello.local_world_size > kMaxWorkersPerNode) {
        return not_admitted("--nproc-per-node " + text(hello.local_world_size) + " is not between 1 and " +
                            text(kMaxWorkersPerNode));
    }
    if (auto taken = nodes_.find(hello.node_rank); taken != nodes_.end()) {
        const Hello& holder = taken->second.hello;
        return not_admitted("--node-rank " + text(hello.node_rank) + " has already joined from " +
                            holder.host + " (agent pid " + std::to_string(holder.pid) + ")");
    }
    if (state_ != State::gathering) return Refused{"the job is over", kExitUnavailable};
    return std::nullopt;
}

Coordinator::Outbox Coordinator::start_round() {
    state_ = State::running;
    std::vector<NodeShare> shares;
    for (const auto& [rank, node] : nodes_) shares.push_back({node.hello.local_world_size, node.hello.role});
    std::vector<NodeRanks> ranks = map_ranks(shares);

    Outbox out;
    for (const auto& [node_rank, node] : nodes_) {
        const NodeRanks& own = ranks.at(static_cast<std::size_t>(node_rank));
        RoundReady ready{.round = round_, .job_id = options_.job_id, .group_rank = node_rank};
        ready.group_world_size = options_.nnodes;
        ready.base_rank = own.base_rank;
        ready.world_size = own.world_size;
        ready.role_base_rank = own.role_base_rank;
        ready.role_world_size = own.role_world_size;
        out.push_back({node.connection, ready});
    }
    return out;
}

Coordinator::Outbox Coordinator::receive_failure(Node& node, int round, Failure failure) {
    // Late echoes of a failure are no news: the first one received is the story.
    if (round != round_ || state_ != State::running) return {};
    failure.node_rank = node.hello.node_rank;
    failure.host = node.hello.host;
    return first_failure(std::move(failure));
}

Coordinator::Outbox Coordinator::receive_end(Node& node, const ControlMessage& message) {
    if (const auto* succeeded = std::get_if<WorkersSucceeded>(&message); succeeded != nullptr) {
        node.succeeded = succeeded->round == round_;
        return finish_if_over();
    }
    if (const auto* gone = std::get_if<WorkersGone>(&message); gone != nullptr && gone->round == round_) {
        node.gone = true;
        node.all_zero = gone->all_zero;
        return finish_if_over();
    }
    if (std::holds_alternative<Goodbye>(message) && state_ == State::over) {
        nodes_by_connection_.erase(node.connection);
        node.connected = false;
    }
    return {};
}

Coordinator::Outbox Coordinator::first_failure(Failure failure) {
    state_ = State::stopping;
    cause_ = std::move(failure);
    Outbox out;
    for (const auto& [rank, node] : nodes_) {
        if (node.connected) out.push_back({node.connection, Stop{round_, *cause_}});
    }
    Outbox finish = finish_if_over();
    out.insert(out.end(), finish.begin(), finish.end());
    return out;
}

Coordinator::Outbox Coordinator::closed(ConnectionId connection, TimePoint now) {
    Node* node = find(connection);
    if (node == nullptr) return {};
    const int node_rank = node->hello.node_rank;
    nodes_by_connection_.erase(connection);
    node->connected = false;

    switch (state_) {
        case State::gathering: {
            nodes_.erase(node_rank);
            status_due_ =
                last_status_ ? std::max(now, *last_status_ + kStatusPeriod) : now + kFirstStatusDelay;
            return {};
        }
        case State::running: {
            if (node->succeeded) return {};  // Its workers are done; the job does not need it any more.
            Failure lost{.kind = Failure::Kind::node_lost, .node_rank = node_rank, .host = node->hello.host};
            lost.exit_code = kExitUnavailable;
            lost.message =
                "the connection to its agent (pid " + std::to_string(node->hello.pid) + ") was lost";
            return first_failure(std::move(lost));
        }
        case State::stopping:
            return finish_if_over();
        case State::over:
            return {};
    }
    return {};
}

Coordinator::Outbox Coordinator::finish_if_over() {
    auto ended = [&](const auto& entry) {
        const Node& node = entry.second;
        return state_ == State::running ? node.succeeded : node.gone || !node.connected;
    };
    const bool active = state_ == State::running || state_ == State::stopping;
    if (!active || !std::all_of(nodes_.begin(), nodes_.end(), ended)) return {};

    const Finish finish{exit_code(), cause_.has_value(), cause_.value_or(Failure{})};
    state_ = State::over;
    Outbox out;
    for (const auto& [rank, node] : nodes_) {
        if (node.connected) out.push_back({node.connection, finish});
    }
    return out;
}

int Coordinator::exit_code() const {
    if (!cause_) return 0;
    if (cause_->kind != Failure::Kind::signalled) return cause_->exit_code;
    bool all_zero = std::all_of(nodes_.begin(), nodes_.end(),
                                [](const auto& entry) { return entry.second.gone && entry.second.all_zero; });
    return all_zero ? kExitPreempted : kExitSignalBase + cause_->signal;
}

Coordinator::Outbox Coordinator::tick(TimePoint now) {
    if (state_ != State::gathering) return {};
    if (now >= join_deadline_) {
        state_ = State::over;
        auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.join_timeout).count();
        Refused refused{to_text(waiting()) + " after " + std::to_string(seconds) +
                            " s; --rdzv-conf join_timeout=SECONDS sets how long to wait",
                        kExitUnavailable};
        Outbox out;
        for (const auto& [rank, node] : nodes_) out.push_back({node.connection, refused, true});
        return out;
    }
    if (status_due_ && now >= *status_due_) return waiting_to_all(now);
    return {};
}

Coordinator::Outbox Coordinator::waiting_to_all(TimePoint now) {
    status_due_.reset();
    last_status_ = now;
    Outbox out;
    for (const auto& [rank, node] : nodes_) out.push_back({node.connection, waiting()});
    return out;
}

Waiting Coordinator::waiting() const {
    Waiting status{static_cast<int>(nodes_.size()), options_.nnodes, {}};
    for (int rank = 0; rank < options_.nnodes && status.missing.size() < std::size_t{kMaxMissingListed};
         ++rank) {
        if (!nodes_.contains(rank)) status.missing.push_back(rank);
    }
    return status;
}

std::optional<Coordinator::TimePoint> Coordinator::next_deadline() const {
    if (state_ != State::gathering) return std::nullopt;
    return status_due_ ? std::min(*status_due_, join_deadline_) : join_deadline_;
}

Coordinator::Node* Coordinator::find(ConnectionId connection) {
    auto entry = nodes_by_connection_.find(connection);
    return entry == nodes_by_connection_.end() ? nullptr : &nodes_.at(entry->second);
}

}  // namespace ddprun
