// The answer to a failure: another round or none, and with whom.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/coordinator/control_text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/job/failure_signature.hpp"

namespace ddprun {

void Coordinator::settle(TimePoint now) {
    const double jitter = std::uniform_real_distribution<double>(0, 1)(random_);
    JobNode* node = resizing_ ? nullptr : culprit();
    if (node != nullptr) exclusion_.blame(node->place, node->hello.host);
    const bool is_out = node != nullptr && exclusion_.is_due(node->place, node->hello.host) &&
                        leave_out(*node, exclusion_.reason(node->place, node->hello.host));
    decision_ = resizing_ ? RestartPolicy::Decision{.restart = true}
                          : policy_.decide({*cause_, uptime_, progressed_, restart_cancelled_,
                                            failure_signature(*cause_, hosts_of(nodes_)), is_out},
                                           jitter);
    if (is_out && decision_.restart)
        remark(fmt::format("{} is left out: {}", node_text(node->hello.node_rank, node->hello.host),
                           node->left_out));
    handle(decision_.restart ? CoordinatorEvent::restart_granted : CoordinatorEvent::restart_refused, {now});
}

// The node whose worker is the first failure; nullptr where that is none.
JobNode* Coordinator::culprit() {
    if (cause_->kind != Failure::Kind::worker_failed && cause_->kind != Failure::Kind::overdue)
        return nullptr;
    const auto node = nodes_.find(cause_->node_rank);
    return node == nodes_.end() ? nullptr : &node->second;
}

// False, and nothing has changed, where the job cannot do without it.
bool Coordinator::leave_out(JobNode& node, std::string why) {
    if (node.hosts || !node.stays()) return false;
    node.left_out = std::move(why);
    exclusion_.exclude(node.hello.host, node.left_out);
    if (has_enough()) return true;
    take_back(node);
    return false;
}

void Coordinator::take_back(JobNode& node) {
    node.left_out.clear();
    exclusion_.take_back(node.hello.host);
}

// Other nodes were lost since then, and now the job needs it.
void Coordinator::take_back_left_out() {
    for (auto& [rank, node] : nodes_) {
        if (node.left_out.empty() || !node.connected) continue;
        take_back(node);
        remark(fmt::format("{} is not left out after all: too few others are there",
                           node_text(rank, node.hello.host)));
    }
}

// A machine of which another node takes part is not at fault as a whole.
const std::string* Coordinator::why_left_out(const Hello& hello) const {
    const std::string* why = exclusion_.why(hello.host);
    if (why == nullptr) return nullptr;
    const bool is_shared = std::any_of(nodes_.begin(), nodes_.end(), [&hello](const auto& entry) {
        return entry.second.stays() && entry.second.hello.host == hello.host;
    });
    return is_shared ? nullptr : why;
}

// Those that wait already, and come from a machine that is left out now.
void Coordinator::refuse_left_out(TimePoint now) {
    std::vector<std::pair<ConnectionId, Hello>> out;
    for (const auto& [connection, node] : queue_) {
        if (why_left_out(node.hello) != nullptr) out.emplace_back(connection, node.hello);
    }
    for (const auto& [connection, hello] : out) {
        leave_queue(connection);
        refuse(connection, hello, left_out_before(hello.host, *why_left_out(hello)), now);
    }
}

void Coordinator::release(JobNode& node, Finish finish) {
    finish.restarts = restarts_;
    finish.resizes = resizes_;
    send(node.connection, std::move(finish));
    released_.insert(node.connection);
    nodes_by_connection_.erase(node.connection);
    heartbeats_.remove(node.connection);
    node.connected = false;
}

void Coordinator::remark(std::string text) {
    if (const JobNode* own = host()) send(own->connection, Remark{std::move(text)});
}

}  // namespace ddprun
