// How a round comes about: nodes come, are let in or refused, hear who is missing, and get their ranks.
#include <algorithm>
#include <utility>

#include "rendezvous/coordinator/control_text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/coordinator/rank_mapping.hpp"

namespace ddprun {

void Coordinator::admit(ConnectionId from, const Hello& hello, TimePoint now) {
    if (const auto refused = reason_against(hello)) return refuse(from, hello, *refused);
    nodes_[hello.node_rank] = JobNode{.hello = hello, .connection = from};
    nodes_by_connection_[from] = hello.node_rank;
    if (static_cast<int>(nodes_.size()) == options_.nnodes)
        return handle(CoordinatorEvent::all_joined, {now});
    // The newcomer hears of the others after a while; those who wait already hear of the newcomer.
    const TimePoint due = next_status(now);
    status_due_ = status_due_ ? std::min(*status_due_, due) : due;
    if (hello.node_rank != 0) return;
    for (PeerRefused& told : refusals_untold_) send(from, std::move(told));
    refusals_untold_.clear();
}

std::optional<Refused> Coordinator::reason_against(const Hello& hello) const {
    return reason_to_refuse(hello, {options_.version, options_.run_id, options_.nnodes},
                            company_of(hello, options_.own_agent, nodes_));
}

void Coordinator::refuse(ConnectionId from, const Hello& hello, const Refused& refused) {
    out_.push_back({from, refused, true});
    // Once each, or an agent that tries again and again would fill node 0's screen.
    PeerRefused told{hello.host, hello.pid, refused.reason};
    const bool is_news = refusals_told_.size() < kMaxRefusalsTold &&
                         refusals_told_.insert(told.host + '\n' + told.reason).second;
    if (!is_news) return;
    if (auto host = nodes_.find(0); host == nodes_.end()) {
        refusals_untold_.push_back(std::move(told));
    } else if (host->second.connected) {
        send(host->second.connection, std::move(told));
    }
}

void Coordinator::forget(const JobNode& node, TimePoint now) {
    nodes_.erase(node.hello.node_rank);
    status_due_ = next_status(now);
}

Coordinator::TimePoint Coordinator::next_status(TimePoint now) const {
    return last_status_ ? std::max(now, *last_status_ + kStatusPeriod) : now + kFirstStatusDelay;
}

void Coordinator::give_up() {
    auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.join_timeout).count();
    send_all(Refused{to_text(waiting()) + " after " + std::to_string(seconds) +
                         " s; --rdzv-conf join_timeout=SECONDS sets how long to wait",
                     kExitUnavailable});
    for (Outgoing& outgoing : out_) outgoing.close_after = true;
}

void Coordinator::tell_waiting(TimePoint now) {
    status_due_.reset();
    last_status_ = now;
    send_all(waiting());
}

Waiting Coordinator::waiting() const {
    Waiting status{static_cast<int>(nodes_.size()), options_.nnodes, {}};
    for (int rank = 0; rank < options_.nnodes && status.missing.size() < kMaxMissingListed; ++rank) {
        if (!nodes_.contains(rank)) status.missing.push_back(rank);
    }
    return status;
}

void Coordinator::start_round(TimePoint now) {
    awaited_ = nodes_.size();
    round_start_ = now;
    progressed_ = requeue_ = false;
    failures_ = {};
    cause_.reset();
    deaths_told_ = 0;
    std::vector<NodeShare> shares;
    for (const auto& [rank, node] : nodes_) shares.push_back({node.hello.local_world_size, node.hello.role});
    const std::vector<NodeRanks> ranks = map_ranks(shares);
    for (auto& [node_rank, node] : nodes_) {
        const NodeRanks& own = ranks.at(static_cast<std::size_t>(node_rank));
        node.ended = node.all_zero = node.is_gone = false;
        node.ends.clear();
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
        send(node.connection, std::move(ready));
    }
}

// As the node with the lowest number says, since one that shares node 0's machine may have taken another way.
std::string Coordinator::reached_at() const {
    const auto other = nodes_.upper_bound(0);
    return other == nodes_.end() ? std::string() : other->second.hello.reached_at;
}

}  // namespace ddprun
