// The coordinator's first state: nodes come, are let in or refused, and hear who is missing.
#include <algorithm>
#include <utility>

#include "rendezvous/coordinator/control_text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun {

Coordinator::Outbox Coordinator::receive_hello(ConnectionId from, const Hello& hello, TimePoint now) {
    if (find(from) != nullptr)
        return {{from, Refused{"this agent has said Hello before", kExitNotAdmitted}, true}};
    if (auto refused = reason_to_refuse_now(hello)) return refuse(from, hello, *refused);

    nodes_[hello.node_rank] = Node{.hello = hello, .connection = from};
    nodes_by_connection_[from] = hello.node_rank;
    if (static_cast<int>(nodes_.size()) == options_.nnodes) return start_round(now);

    // The newcomer hears of the others after a while; those who wait already hear of the newcomer.
    TimePoint due = last_status_ ? std::max(now, *last_status_ + kStatusPeriod) : now + kFirstStatusDelay;
    status_due_ = status_due_ ? std::min(*status_due_, due) : due;
    Outbox out;
    if (hello.node_rank != 0) return out;
    for (PeerRefused& told : refusals_untold_) out.push_back({from, std::move(told)});
    refusals_untold_.clear();
    return out;
}

std::optional<Refused> Coordinator::reason_to_refuse_now(const Hello& hello) const {
    const Company company = company_of(hello);
    if (auto refused = reason_to_refuse(hello, {options_.version, options_.run_id, options_.nnodes}, company))
        return refused;
    if (state_ != State::gathering) return Refused{"the job is over", kExitUnavailable};
    return std::nullopt;
}

Company Coordinator::company_of(const Hello& hello) const {
    Company company;
    if (auto holder = nodes_.find(hello.node_rank); holder != nodes_.end())
        company.holder = &holder->second.hello;
    if (const auto& own = options_.own_agent; own && (own->host != hello.host || own->pid != hello.pid)) {
        if (hello.node_rank == own->node_rank) company.holder = &*own;
        if (hello.role == own->role) company.companion = &*own;
    }
    for (const auto& [rank, node] : nodes_) {
        if (company.companion == nullptr && node.hello.role == hello.role) company.companion = &node.hello;
    }
    return company;
}

Coordinator::Outbox Coordinator::refuse(ConnectionId from, const Hello& hello, const Refused& refused) {
    Outbox out{{from, refused, true}};
    // Once each, or an agent that tries again and again would fill node 0's screen.
    PeerRefused told{hello.host, hello.pid, refused.reason};
    const bool is_news = refusals_told_.size() < kMaxRefusalsTold &&
                         refusals_told_.insert(told.host + '\n' + told.reason).second;
    if (!is_news) return out;
    if (auto host = nodes_.find(0); host == nodes_.end()) {
        refusals_untold_.push_back(std::move(told));
    } else if (host->second.connected) {
        out.push_back({host->second.connection, std::move(told)});
    }
    return out;
}

Coordinator::Outbox Coordinator::time_out() {
    state_ = State::over;
    auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.join_timeout).count();
    Refused refused{to_text(waiting()) + " after " + std::to_string(seconds) +
                        " s; --rdzv-conf join_timeout=SECONDS sets how long to wait",
                    kExitUnavailable};
    Outbox out = to_all(refused);
    for (Outgoing& outgoing : out) outgoing.close_after = true;
    return out;
}

Coordinator::Outbox Coordinator::waiting_to_all(TimePoint now) {
    status_due_.reset();
    last_status_ = now;
    return to_all(waiting());
}

Waiting Coordinator::waiting() const {
    Waiting status{static_cast<int>(nodes_.size()), options_.nnodes, {}};
    for (int rank = 0; rank < options_.nnodes && status.missing.size() < kMaxMissingListed; ++rank) {
        if (!nodes_.contains(rank)) status.missing.push_back(rank);
    }
    return status;
}

}  // namespace ddprun
