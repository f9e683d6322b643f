// The answer to a failure: whose it may be, another round or none, and with whom.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/job/failure_signature.hpp"

namespace ddprun::inline job {

// A resize is no failure, and who wants the job to end has answered already.
bool Coordinator::wants_judgement() {
    return options_.asks_about_failures && !resizing_ && !restart_cancelled_ &&
           cause_->kind != Failure::Kind::signalled && host() != nullptr;
}

void Coordinator::ask_judge(TimePoint now) {
    judgement_deadline_ = now + kJudgementTimeout;
    send(host()->connection, JudgeFailure{round_, *cause_});
}

void Coordinator::settle(const Occasion& occasion) {
    Judgement judgement;
    if (occasion.message == nullptr) {
        remark(fmt::format("--on-failure: no answer within {} s; ddprun decides by itself",
                           kJudgementTimeout.count()));
    } else {
        // Who was not asked has nothing to say.
        if (!occasion.node->hosts) return;
        judgement = std::get<Judgement>(*occasion.message);
    }
    settle_by(judgement, occasion.now);
}

void Coordinator::settle_by(const Judgement& judgement, TimePoint now) {
    const double jitter = std::uniform_real_distribution<double>(0, 1)(random_);
    RestartPolicy::RoundResult result{*cause_,
                                      uptime_,
                                      progressed_,
                                      restart_cancelled_,
                                      failure_signature(*cause_, hosts_of(nodes_)),
                                      judgement.answer};
    JobNode* out = nullptr;
    if (judgement.answer == Judgement::Answer::exclude) {
        const std::string obstacle = why_not_without(judgement.node);
        if (obstacle.empty()) {
            out = &nodes_.at(judgement.node);
        } else {
            remark(fmt::format("--on-failure: exclude {}: {}; ddprun decides by itself", judgement.node,
                               obstacle));
            result.answer = Judgement::Answer::none;
        }
    }
    JobNode* node = resizing_ ? nullptr : culprit();
    if (node != nullptr) exclusion_.blame(node->place, node->hello.host);
    if (out == nullptr && node != nullptr && exclusion_.is_due(node->place, node->hello.host) &&
        leave_out(*node, exclusion_.reason(node->place, node->hello.host)))
        out = node;
    result.is_left_out = out != nullptr;
    decision_ = resizing_ ? RestartPolicy::Decision{.restart = true} : policy_.decide(result, jitter);
    if (out != nullptr && decision_.restart)
        remark(fmt::format("{} is left out: {}", node_text(out->hello.node_rank, out->hello.host),
                           out->left_out));
    handle(decision_.restart ? CoordinatorEvent::restart_granted : CoordinatorEvent::restart_refused, {now});
}

// Empty: that node is left out of further rounds.
std::string Coordinator::why_not_without(int node_rank) {
    const auto entry = nodes_.find(node_rank);
    if (entry == nodes_.end()) return "the job has no such node";
    JobNode& node = entry->second;
    if (node.hosts) return "it hosts the rendezvous";
    if (!node.stays()) return "it is not there any more";
    return leave_out(node, "--on-failure says so") ? std::string() : "the job needs it";
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

std::optional<Refused> Coordinator::why_unwanted(const Hello& hello) const {
    if (const std::string* why = why_left_out(hello)) return left_out_before(hello.host, *why);
    if (!options_.strict_env) return std::nullopt;
    const std::vector<std::string> differences = comparison_.against(hello);
    return differences.empty() ? std::nullopt : std::optional(newcomer_refused_for(differences));
}

// Those that wait already, when what is known of their machines, or of the nodes that they would join, has changed.
void Coordinator::refuse_unwanted() {
    std::vector<std::pair<JobNode, Refused>> out;
    for (const auto& [connection, node] : queue_) {
        if (auto refused = why_unwanted(node.hello)) out.emplace_back(node, std::move(*refused));
    }
    for (const auto& [node, refused] : out) {
        leave_queue(node.connection);
        refuse(node.connection, node.hello, refused);
    }
}

void Coordinator::release(JobNode& node, Finish finish) {
    finish.restarts = restarts_;
    finish.resizes = resizes_;
    send(node.connection, std::move(finish));
    released_.insert(node.connection);
    quorum_.lose(node.connection, true);
    if (previous_) previous_->lose(node.connection, true);
    nodes_by_connection_.erase(node.connection);
    heartbeats_.remove(node.connection);
    node.connected = false;
}

void Coordinator::remark(std::string text) {
    if (const JobNode* own = host()) send(own->connection, Remark{std::move(text)});
}

void Coordinator::keep_ends(JobNode& node, const RankEnds& ends) const {
    for (const RankEnd& end : ends.ends) {
        if (node.ends.size() == static_cast<std::size_t>(node.hello.local_world_size)) return;
        node.ends.push_back(end);
        node.ends.back().node_rank = node.hello.node_rank;
        node.ends.back().host = node.hello.host;
    }
}

void Coordinator::suspect(const JobNode& node, const WorkerDying& dying) {
    if (dying.itself && node.has_rank(dying.rank)) failures_.suspect(dying.rank);
    if (dying.life == 0 || deaths_told_ + nodes_.size() > kMaxDeathsTold) return;
    for (const auto& [rank, other] : nodes_) {
        if (&other == &node || !other.connected || other.ended) continue;
        send(other.connection, PeerDying{round_, dying.life});
        ++deaths_told_;
    }
}

void Coordinator::contend(const JobNode& node, const ControlMessage& message) {
    const auto* failed = std::get_if<WorkerFailed>(&message);
    const auto* dying = std::get_if<WorkerDying>(&message);
    const int rank = failed != nullptr ? failed->failure.rank : dying->rank;
    if ((failed != nullptr || dying->itself) && node.has_rank(rank)) failures_.contend(rank);
}

}  // namespace ddprun::inline job
